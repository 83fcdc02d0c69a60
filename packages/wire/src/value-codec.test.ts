import fc from 'fast-check';
import { tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { decodeValue, encodeValue, registerValueType } from './index.ts';
import { ByteWriter, DEFAULT_WIRE_LIMITS, ValueCodec, WireError, valueTypeNamed } from './internal.ts';
import { Value } from './gen/backwire/wire/v1/value.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const roundTrip = (value: unknown): unknown => {
  const { bytes, tensors } = encodeValue(value);
  return decodeValue(bytes, tensors);
};

/** Bytes and values that stand for each other. The bytes are the protocol: a change here breaks peers. */
const wireText: [string, unknown, string][] = [
  ['null', null, '0801'],
  ['undefined', undefined, '0802'],
  ['false', false, '1000'],
  ['true', true, '1001'],
  ['zero', 0, '1800'],
  ['minus one', -1, '1801'],
  ['the largest 32-bit integer', 2147483647, '18feffffff0f'],
  ['the smallest 32-bit integer', -2147483648, '18ffffffff0f'],
  ['minus zero', -0, '210000000000000080'],
  ['a fraction', 0.5, '21000000000000e03f'],
  ['a large integer', 2 ** 53, '210000000000004043'],
  ['NaN', NaN, '21000000000000f87f'],
  ['infinity', Infinity, '21000000000000f07f'],
  ['the empty string', '', '2a00'],
  ['a string', 'ab', '2a026162'],
  ['a string of four-byte characters', '😀', '2a04f09f9880'],
  ['a lone surrogate', '\ud800', '9a010200d8'],
  ['bytes', Uint8Array.of(1, 2), '32020102'],
  ['a small bigint', -2n, '39feffffffffffffff'],
  ['a large bigint', 2n ** 64n, '428b001209000000000000000001'],
  ['a negative large bigint', -(2n ** 64n), '428d0008011209000000000000000001'],
  ['a typed array', Uint16Array.of(1, 256), '4a8800080412040100' + '0001'],
  ['a date', new Date(1), '51000000000000f03f'],
  ['an empty array', [], '5a8000'],
  ['an array', [1, null], '5a88000a02180' + '20a020801'],
  ['an empty object', {}, '628000'],
  ['an object', { a: 1 }, '6287000a016112021802'],
  ['a map', new Map([[1, 'x']]), '7289000a02180' + '212032a0178'],
  ['a set', new Set([true]), '7a84000a021001'],
  [
    'many numbers',
    [0, 1, 2, 3, 4, 5, 6, 7],
    'a201c2000a40' + [0, 1, 2, 3, 4, 5, 6, 7].map((n) => hex(new Uint8Array(Float64Array.of(n).buffer))).join(''),
  ],
];

/** The same for values that are rebuilt by class, compared by what they say. */
const errorText: [string, Error, string][] = [
  ['a standard error', new TypeError('no'), '8201' + '8f00' + '0a09' + '547970654572726f72' + '1202' + '6e6f'],
  [
    'an error with a cause',
    new Error('a', { cause: 1 }),
    '8201' + '8e00' + '0a05' + '4572726f72' + '1201' + '61' + '1a02' + '1802',
  ],
];

describe('value bytes', () => {
  it.each(errorText)('write and read %s', (_name, error, bytes) => {
    expect(hex(encodeValue(error).bytes)).toBe(bytes);
    const back = decodeValue(Buffer.from(bytes, 'hex'), []) as Error;
    expect([back.name, back.message, back.cause, back.constructor]).toEqual([
      error.name,
      error.message,
      error.cause,
      error.constructor,
    ]);
  });

  it.each(wireText)('write %s', (_name, value, bytes) => expect(hex(encodeValue(value).bytes)).toBe(bytes));
  it.each(wireText)('read %s', (_name, value, bytes) =>
    expect(decodeValue(Buffer.from(bytes, 'hex'), [])).toEqual(value),
  );

  it('are what a generated protobuf reader understands', () => {
    const { bytes } = encodeValue({ a: [1, 'x', 2.5, null, true], b: new Map([[1n, undefined]]), c: -(2n ** 70n) });
    const message = Value.decode(bytes);
    const list = message.kind?.$case === 'object' ? message.kind.value : undefined;
    expect(list?.keys).toEqual(['a', 'b', 'c']);
    const first = list?.values[0]?.kind;
    expect(first?.$case === 'list' ? first.value.items.map((item) => item.kind) : first).toEqual([
      { $case: 'integer', value: 1 },
      { $case: 'text', value: 'x' },
      { $case: 'number', value: 2.5 },
      { $case: 'singleton', value: 1 },
      { $case: 'boolean', value: true },
    ]);
    expect(decodeValue(Value.encode(message).finish(), [])).toEqual(decodeValue(bytes, []));
  });

  it('are read from a writer that groups keys and uses canonical lengths', () => {
    const bytes = Value.encode({
      kind: {
        $case: 'object',
        value: {
          keys: ['a', 'b'],
          values: [{ kind: { $case: 'integer', value: 2 ** 40 } }, { kind: { $case: 'text', value: 'é' } }],
        },
      },
    }).finish();
    expect(decodeValue(bytes, [])).toEqual({ a: 2 ** 40, b: 'é' });
  });

  it('may have fields of a newer version, which are skipped', () => {
    // Field 100, of every wire type, before and after a known one.
    const unknown = 'a00605' + 'a1060102030405060708' + 'a2060161' + 'a50601020304';
    expect(decodeValue(Buffer.from(unknown + '1802' + unknown, 'hex'), [])).toBe(1);
    expect(decodeValue(new Uint8Array(0), [])).toBeUndefined();
  });
});

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
    expect(() => decodeValue(bytes, [tensor([1, 2]), tensor([1])])).toThrow('no vector of bytes');
    expect(() => decodeValue(bytes, [])).toThrow('tensor 0 of 0');
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
    expect(() => encodeValue(/x/)).toThrow('class RegExp');
    expect(() => encodeValue(Promise.resolve())).toThrow('class Promise');
    expect(() => encodeValue({ '\ud800': 1 })).toThrow('well-formed');
  });
});

describe('limits', () => {
  const codec = new ValueCodec<undefined>([], {
    ...DEFAULT_WIRE_LIMITS,
    maxDepth: 4,
    maxValues: 20,
    maxStringBytes: 100,
    maxKeyBytes: 10,
    maxBigIntDigits: 100,
  });
  const nest = (depth: number): unknown => (depth === 0 ? 1 : [nest(depth - 1)]);
  const cases: [string, unknown, unknown][] = [
    ['depth', nest(4), nest(5)],
    ['nodes', Array.from({ length: 19 }, () => 'x'), Array.from({ length: 20 }, () => 'x')],
    ['strings', 'x'.repeat(100), 'é'.repeat(51)],
    ['short strings in long ones', 'é'.repeat(20), 'x'.repeat(101)],
    ['keys', { ['k'.repeat(10)]: 1 }, { ['k'.repeat(11)]: 1 }],
    ['bigints', 10n ** 99n, 10n ** 101n],
  ];
  it.each(cases)('hold for the writer: %s', (_name, good, bad) => {
    expect(() => codec.write(new ByteWriter(), good, [], undefined)).not.toThrow();
    expect(() => codec.write(new ByteWriter(), bad, [], undefined)).toThrow(/^limit: /);
  });
  it.each(cases)('hold for the reader: %s', (_name, good, bad) => {
    const fine = encodeValue(good).bytes;
    expect(() => codec.read(fine, 0, fine.length, [], undefined)).not.toThrow();
    const bytes = encodeValue(bad).bytes;
    expect(() => codec.read(bytes, 0, bytes.length, [], undefined)).toThrow(/^limit: /);
  });

  it('name the place in the message', () => {
    expect(() => codec.write(new ByteWriter(), { list: ['x'.repeat(101)] }, [], undefined)).toThrow(
      'limit: string at $.list[0] (101 over the limit of 100)',
    );
  });

  it('count the same on both sides', () => {
    const keys = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`k${i}`, i]));
    expect(Object.keys(roundTrip(keys) as object).length).toBe(60_000);
    const numbers = Array.from({ length: 150_000 }, (_, i) => i);
    const back = roundTrip([numbers, numbers]) as number[][];
    expect(back.map((list) => list.length)).toEqual([150_000, 150_000]);
    expect(back.every((list) => list.every((n, i) => n === i))).toBe(true);
    const { maxValues } = DEFAULT_WIRE_LIMITS;
    const most = new Array(maxValues - 1).fill(null);
    expect((roundTrip(most) as unknown[]).length).toBe(maxValues - 1);
    expect(() => encodeValue([...most, null])).toThrow(/^limit: values/);
  });

  it('of arrays are checked before they are walked', () => {
    expect(() => encodeValue(new Array(1e9))).toThrow('over the limit of 4194304');
  });
});

describe('malformed values', () => {
  const bad: [string, string][] = [
    ['a cut varint', '18ff'],
    ['a varint of eleven bytes', '18ffffffffffffffffffff01'],
    ['a string past the end', '2a05616263'],
    ['a length of 4 GiB', '2affffffff0f'],
    ['bytes that are no UTF-8', '2a02c328'],
    ['an overlong UTF-8 form', '2a02c080'],
    ['an unknown singleton', '0803'],
    ['a tensor that is not there', '6800'],
    ['an integer past 2^53', '18ffffffffffffffffff01'],
    ['keys without values', '62030a0161'],
    ['a list that runs past its end', '5a030a0518'],
    ['an unknown element type', '4a020863'],
    ['a typed array of half an element', '4a0508041201' + '01'],
    ['an unregistered type', '8a01070a016e12021802'],
    ['an unknown extension', '9201070a016e12021802'],
    ['a tagged value without a tag', '8a010412021802'],
    ['an odd UTF-16 length', '9a010141'],
    ['a group, which protobuf dropped', '0b'],
    ['a packed list of a broken length', 'a201030a0101'],
  ];
  it.each(bad)('are refused: %s', (_name, bytes) => {
    expect(() => decodeValue(Buffer.from(bytes, 'hex'), [])).toThrow(WireError);
  });
});

describe('registered types', () => {
  class Point {
    readonly x: number;
    readonly y: unknown;
    constructor(x: number, y: unknown) {
      this.x = x;
      this.y = y;
    }
  }
  class Point3 extends Point {}
  const type = {
    name: 'test.Point',
    match: Point,
    encode: (p: Point) => [p.x, p.y],
    decode: (plain: unknown) => new Point((plain as [number, unknown])[0], (plain as [number, unknown])[1]),
  };
  registerValueType(type);

  it('travel by value, nested and as a base class', () => {
    expect(roundTrip([new Point(1, new Point(2, null))])).toEqual([new Point(1, new Point(2, null))]);
    expect(roundTrip(new Point3(1, 2))).toEqual(new Point(1, 2));
  });

  it('mean one class: the same again is fine, another throws and names both', () => {
    registerValueType(type);
    class Other {}
    expect(() => registerValueType({ ...type, match: Other as never })).toThrow(
      "'test.Point' is class Point already; class Other needs another name",
    );
    expect(() => registerValueType({ ...type, name: 'test.Point2' })).toThrow(
      "class Point is value type 'test.Point' already; it cannot be 'test.Point2' too",
    );
    expect(() => registerValueType({ ...type, name: '' })).toThrow(TypeError);
  });

  it('are one table for every copy of this package', async () => {
    const copy = (await import(/* @vite-ignore */ `./value-types.ts?copy=${1}`)) as {
      valueTypeNamed: typeof valueTypeNamed;
    };
    expect(copy.valueTypeNamed).not.toBe(valueTypeNamed);
    expect(copy.valueTypeNamed('test.Point')?.match).toBe(Point);
  });

  it('cannot contain themselves through what encode gives', () => {
    class Loop {}
    registerValueType({ name: 'test.Loop', match: Loop, encode: (value) => [value], decode: () => new Loop() });
    expect(() => encodeValue(new Loop())).toThrow('contains itself');
  });

  it('that fail to decode give a decode-error with the cause', () => {
    class Fails {}
    const cause = new Error('no');
    registerValueType({
      name: 'test.Fails',
      match: Fails,
      encode: () => 1,
      decode: () => {
        throw cause;
      },
    });
    const { bytes } = encodeValue(new Fails());
    expect(() => decodeValue(bytes, [])).toThrow(expect.objectContaining({ code: 'decode-error', cause }) as Error);
  });
});

describe('extensions', () => {
  class Handle {
    readonly id: number;
    constructor(id: number) {
      this.id = id;
    }
  }
  interface Context {
    peer: string;
    log: string[];
  }
  const codec: ValueCodec<Context> = new ValueCodec<Context>([
    {
      tag: 'handle',
      match: (value) => value instanceof Handle || typeof value === 'function',
      encode(value, ctx) {
        // An extension may use the codec itself.
        codec.write(new ByteWriter(), ['nested'], [], ctx);
        ctx.log.push(`encode for ${ctx.peer}`);
        return { id: value instanceof Handle ? value.id : -1 };
      },
      decode(plain, ctx) {
        ctx.log.push(`decode from ${ctx.peer}`);
        return new Handle((plain as { id: number }).id);
      },
    },
  ]);

  it('get the context of the call, and may encode while a value is being encoded', () => {
    const ctx = { peer: 'ps', log: [] };
    const out = new ByteWriter();
    codec.write(out, [new Handle(4), () => 1, 'after'], [], ctx);
    const bytes = out.finish();
    expect(codec.read(bytes, 0, bytes.length, [], ctx)).toEqual([new Handle(4), new Handle(-1), 'after']);
    expect(ctx.log).toEqual(['encode for ps', 'encode for ps', 'decode from ps', 'decode from ps']);
  });

  it('are known by their tag on the other side only', () => {
    const out = new ByteWriter();
    codec.write(out, new Handle(1), [], { peer: 'x', log: [] });
    expect(() => decodeValue(out.finish(), [])).toThrow("no extension for values of kind 'handle'");
  });
});
