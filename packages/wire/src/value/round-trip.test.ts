/** @file Values come back as they were, whatever they are made of. */
import fc from 'fast-check';
import { tensor, zeros, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { decodeValue, encodeValue, registerValueType } from '../index.ts';
import { ByteWriter, DEFAULT_WIRE_LIMITS, ValueCodec, type WireError } from '../internal.ts';
import { Value } from '../gen/backwire/wire/v1/value.ts';
import { roundTrip } from '../testdata/round-trip.ts';

describe('values', () => {
  it('survive the journey', () => {
    const any = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withNullPrototype: true,
      withSparseArray: false,
      maxDepth: 4,
      key: fc.string({ unit: 'grapheme' }),
    });
    fc.assert(
      fc.property(any, (value) => {
        expect(roundTrip(value)).toEqual(value);
      }),
      { numRuns: 500 },
    );
  });

  it('keep every string, well-formed or not', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => roundTrip(text) === text));
    fc.assert(
      fc.property(
        fc.array(fc.nat(0xffff)),
        (units) => roundTrip(String.fromCharCode(...units)) === String.fromCharCode(...units),
      ),
    );
    for (const length of [4095, 4096, 4097, 100_000])
      expect(roundTrip(`a${'\udc00'.repeat(length)}`) === `a${'\udc00'.repeat(length)}`).toBe(true);
    for (const length of [40, 41, 48, 49, 127, 128, 16_383, 16_384, 40_000, 70_000])
      for (const unit of ['a', 'é', '€', '😀'])
        expect(roundTrip(unit.repeat(length)) === unit.repeat(length)).toBe(true);
  });

  it('keep every number and bigint', () => {
    fc.assert(fc.property(fc.double(), (n) => Object.is(roundTrip(n), n)));
    fc.assert(fc.property(fc.maxSafeInteger(), (n) => Object.is(roundTrip(n), n)));
    fc.assert(fc.property(fc.bigInt({ min: -(2n ** 3000n), max: 2n ** 3000n }), (n) => roundTrip(n) === n));
    for (const n of [2n ** 63n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 63n) - 1n]) expect(roundTrip(n)).toBe(n);
  });

  it('keep containers of every size, so that every width of length is written', () => {
    for (const length of [0, 1, 7, 8, 40, 60, 120, 2000, 3000, 6000, 20_000]) {
      const list = Array.from({ length }, (_, i) => `s${i}`);
      expect(roundTrip([[list]])).toEqual([[list]]);
      expect(roundTrip(new Set(list))).toEqual(new Set(list));
    }
  });

  it('are plain objects like any other, and every key is data', () => {
    const evil = JSON.parse(
      '{"__proto__": {"polluted": 1}, "constructor": 2, "hasOwnProperty": 3, "toString": 4}',
    ) as object;
    const back = roundTrip(evil) as Record<string, unknown>;
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.keys(back)).toEqual(['__proto__', 'constructor', 'hasOwnProperty', 'toString']);
    expect(Object.getOwnPropertyDescriptors(back)).toEqual(Object.getOwnPropertyDescriptors(evil));
    expect(back['__proto__']).toEqual({ polluted: 1 });
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect((back as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('do what programs expect of objects', () => {
    const back = roundTrip({ a: { b: 1 } }) as { a: object };
    // eslint-disable-next-line @typescript-eslint/no-base-to-string -- what programs write
    expect(`${back as unknown as string} ${String(back.a)}`).toBe('[object Object] [object Object]');
    // eslint-disable-next-line no-prototype-builtins -- what programs write
    expect([back.hasOwnProperty('a'), back.a.hasOwnProperty('a'), back.a instanceof Object]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it('take every name that Object.prototype has, and call nothing of it', () => {
    let called = 0;
    Object.defineProperty(Object.prototype, 'trap', { configurable: true, get: () => 1, set: () => void called++ });
    Object.defineProperty(Object.prototype, 'fixed', { configurable: true, value: 1, writable: false });
    try {
      const names = Object.getOwnPropertyNames(Object.prototype);
      expect(names).toEqual(expect.arrayContaining(['__proto__', '__defineSetter__', 'valueOf', 'trap', 'fixed']));
      const every = Object.fromEntries(names.map((name, i) => [name, i]));
      const values = names.map((_, i) => ({ kind: { $case: 'integer' as const, value: i } }));
      const grouped = Value.encode({ kind: { $case: 'object', value: { keys: names, values } } }).finish();
      const before = Object.getOwnPropertyDescriptors(Object.prototype);
      for (const back of [roundTrip(every), decodeValue(grouped, [])] as Record<string, unknown>[]) {
        expect(Object.entries(back)).toEqual(Object.entries(every));
        expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
      }
      expect(Object.getOwnPropertyDescriptors(Object.prototype)).toEqual(before);
      expect(called).toBe(0);
    } finally {
      delete (Object.prototype as { trap?: unknown }).trap;
      delete (Object.prototype as { fixed?: unknown }).fixed;
    }
  });

  it('are copies: nothing refers to the bytes they were read from', () => {
    const { bytes } = encodeValue([Uint8Array.of(1), Float64Array.of(2)]);
    const back = decodeValue(bytes, []) as [Uint8Array, Float64Array];
    bytes.fill(0);
    expect(back).toEqual([Uint8Array.of(1), Float64Array.of(2)]);
  });

  it('keep the kind of a typed array, and only the part that is viewed', () => {
    const buffer = Uint8Array.from({ length: 64 }, (_, i) => i).buffer;
    for (const view of [
      new Int8Array(buffer, 1, 5),
      new Uint8ClampedArray(buffer, 1, 5),
      new Int16Array(buffer, 2, 5),
      new Uint32Array(buffer, 4, 5),
      new Int32Array(buffer, 4, 5),
      new Float32Array(buffer, 4, 5),
      new Float64Array(buffer, 8, 5),
      new BigInt64Array(buffer, 8, 2),
      new BigUint64Array(buffer, 8, 2),
    ]) {
      const back = roundTrip(view) as typeof view;
      expect(back).toEqual(view);
      expect(back.constructor).toBe(view.constructor);
      expect(back.buffer.byteLength).toBe(view.byteLength);
    }
    expect(new Uint8Array(roundTrip(new Uint8Array([1, 2]).buffer) as ArrayBuffer)).toEqual(Uint8Array.of(1, 2));
    expect((roundTrip(new DataView(buffer, 3, 2)) as DataView).getUint8(0)).toBe(3);
    expect(roundTrip(Buffer.from('ab'))).toEqual(Uint8Array.of(97, 98));
    expect(new Uint8Array(roundTrip(new SharedArrayBuffer(2)) as ArrayBuffer)).toEqual(new Uint8Array(2));
  });

  it('send large typed arrays beside the value, like tensors', () => {
    const large = Float64Array.from({ length: 10_000 }, (_, i) => i / 3);
    const value = {
      list: [large, large.subarray(5)],
      buffer: new Uint8Array(70_000).fill(7).buffer,
      bytes: new Uint8Array(65_536),
    };
    const { bytes, tensors } = encodeValue(value);
    expect(bytes.length).toBeLessThan(200);
    expect(tensors.map((t) => [t.dtype, t.size])).toEqual(
      [80_000, 79_960, 70_000, 65_536].map((size) => ['uint8', size]),
    );
    const back = decodeValue(bytes, tensors) as typeof value;
    expect(back.list.map((list) => list.constructor)).toEqual([Float64Array, Float64Array]);
    for (const [i, list] of back.list.entries()) expect(list.every((n, at) => n === value.list[i]?.[at])).toBe(true);
    expect(Buffer.compare(new Uint8Array(back.buffer), new Uint8Array(value.buffer))).toBe(0);
    expect(Buffer.compare(back.bytes, value.bytes)).toBe(0);
    back.list[0]?.fill(0);
    expect(large[1]).toBe(1 / 3);
  });

  it('take a tensor for a typed array once, and only a vector of bytes', () => {
    const { bytes, tensors } = encodeValue([new Uint8Array(65_536), new Uint8Array(65_536)]);
    const twice = Uint8Array.from(bytes);
    twice[twice.length - 1] = 0;
    expect(() => decodeValue(twice, tensors)).toThrow('tensor 0 carries two typed arrays');
    // Nor by way of two tensors over one storage: a megabyte would become gigabytes.
    const one = zeros([65_536], { dtype: 'uint8' });
    expect(() => decodeValue(bytes, [one, one.view([65_536])])).toThrow('tensor 1 carries two typed arrays');
    expect(() => decodeValue(bytes, [tensor([1, 2]), tensor([1])])).toThrow('no vector of bytes');
    expect(() => decodeValue(bytes, [])).toThrow('tensor 0 of 0');
  });

  it.each<[string, unknown]>([
    ['a number', 1],
    ['an empty list', []],
    ['a list', ['a']],
    ['packed numbers', [1, 2, 3, 4, 5, 6, 7, 8]],
    ['a large bigint', 2n ** 80n],
    ['a typed array', Float32Array.of(1, 2)],
    ['an error', new Error('x')],
    ['an empty map', new Map()],
    ['a set', new Set([1])],
  ])('go as deep as the limit says, and what is written can be read: %s', (_, leaf) => {
    const deep = new ValueCodec<undefined>([], { ...DEFAULT_WIRE_LIMITS, maxDepth: 4 });
    const accepted = [2, 3, 4, 5].map((depth) => {
      let value = leaf;
      for (let i = 0; i < depth; i++) value = [value];
      const [out, tensors]: [ByteWriter, Tensor[]] = [new ByteWriter(), []];
      try {
        deep.write(out, value, tensors, undefined);
      } catch (error) {
        expect((error as WireError).code).toBe('limit');
        return false;
      }
      const bytes = out.finish();
      expect(deep.read(bytes, 0, bytes.length, tensors, undefined)).toEqual(value);
      return true;
    });
    const holdsNothing = typeof leaf !== 'object' || ArrayBuffer.isView(leaf);
    expect(accepted).toEqual([true, true, holdsNothing, false]);
  });

  it('are of their registered class also where that extends Date or a typed array', () => {
    class Day extends Date {}
    class Samples extends Int16Array {}
    registerValueType({ name: 'round-trip.Day', match: Day, encode: Number, decode: (ms) => new Day(ms as number) });
    registerValueType({
      name: 'round-trip.Samples',
      match: Samples,
      encode: (samples) => [...samples],
      decode: (samples) => new Samples(samples as number[]),
    });
    const [day, samples, date, plain, buffer] = roundTrip([
      new Day(5),
      Samples.of(1, -2),
      new Date(6),
      Int16Array.of(3),
      Buffer.from('b'),
    ]) as [Day, Samples, Date, Int16Array, Uint8Array];
    expect([day.constructor, day.getTime()]).toEqual([Day, 5]);
    expect([samples.constructor, [...samples]]).toEqual([Samples, [1, -2]]);
    expect([date.constructor, plain.constructor, buffer.constructor]).toEqual([Date, Int16Array, Uint8Array]);
  });

  it('keep errors: class, name, message, cause and the errors of an aggregate, without a stack of ours', () => {
    const inner = new RangeError('größe');
    const back = roundTrip(new TypeError('outer', { cause: inner })) as TypeError;
    expect(back).toBeInstanceOf(TypeError);
    expect([back.name, back.message, back.stack]).toEqual(['TypeError', 'outer', 'TypeError: outer']);
    expect(back.cause).toBeInstanceOf(RangeError);
    const all = roundTrip(new AggregateError([inner, 2], 'many')) as AggregateError;
    expect(all).toBeInstanceOf(AggregateError);
    expect([all.message, all.errors.length, all.errors[1]]).toEqual(['many', 2, 2]);
    class Odd extends Error {
      override name = 'Odd';
    }
    const odd = roundTrip(new Odd('x')) as Error;
    expect([odd.name, odd.message, odd.constructor]).toEqual(['Odd', 'x', Error]);
  });

  it('takes errors whose name and message are no texts, or longer than what a peer takes', () => {
    const odd = Object.assign(new Error(), { name: 5, message: { toString: () => 'shown' } });
    const back = roundTrip(odd) as Error;
    expect([back.name, back.message]).toEqual(['5', 'shown']);
    const long = roundTrip(Object.assign(new Error('x'), { name: 'ü'.repeat(50_000) })) as Error;
    expect(long.name).toMatch(/^ü{1000,}$/);
    expect(() => roundTrip(new Error('x'.repeat(DEFAULT_WIRE_LIMITS.maxStringBytes + 1)))).toThrow(
      /string at|string \(/,
    );
  });

  it('may hold the same object twice, but not inside itself', () => {
    const shared = { x: 1 };
    expect(roundTrip([shared, shared])).toEqual([{ x: 1 }, { x: 1 }]);
    const list: unknown[] = [1];
    list.push({ deep: [new Map([['k', list]])] });
    expect(() => encodeValue(list)).toThrow('contains itself at $[1].deep[0].value(0)');
    const set = new Set<unknown>();
    set.add(set);
    expect(() => encodeValue(set)).toThrow('contains itself');
  });

  it('say where something cannot travel', () => {
    class Unregistered {}
    expect(() => encodeValue({ a: [() => 1] })).toThrow('cannot send a function at $.a[0]');
    expect(() => encodeValue([Symbol('s')])).toThrow('cannot send a symbol at $[0]');
    expect(() => encodeValue({ x: new Unregistered() })).toThrow(
      'class Unregistered at $.x: register it with registerValueType',
    );
    class Handle {
      get [Symbol.for('backwire.carried')](): string {
        return 'handles travel in calls';
      }
    }
    expect(() => encodeValue({ x: new Handle() })).toThrow(
      'cannot send an instance of class Handle at $.x: handles travel in calls',
    );
    expect(() => encodeValue(/x/)).toThrow('class RegExp');
    expect(() => encodeValue([Object.create({ inherited: 1 })])).toThrow(
      'cannot send an object that inherits from another at $[0]: send a copy, { ...value }',
    );
    // What is shown of a key is short.
    const [long, short] = ['l'.repeat(41), 's'.repeat(40)];
    expect(() => encodeValue({ [long]: { [short]: () => 1 } })).toThrow(
      new RegExp(`function at \\$\\.l{40}…\\.${short};`),
    );
    expect(() => encodeValue([Promise.resolve()])).toThrow(
      'cannot send an instance of class Promise at $[0]: await it, and send what it resolves with',
    );
    expect(() => encodeValue({ '\ud800': 1 })).toThrow('well-formed');
  });
});
