/** @file The bytes of values: what is written and read, its limits, and what is malformed. */
import { describe, expect, it } from 'vitest';
import { decodeValue, encodeValue } from '../index.ts';
import { ByteReader, ByteWriter, DEFAULT_WIRE_LIMITS, ValueCodec, WireError } from '../internal.ts';
import { Value } from '../gen/backwire/wire/v1/value.ts';
import { roundTrip } from '../testdata/round-trip.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

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
    // Field 100, of every wire type, before and after a known one; its bytes look like a first field that is cut off.
    const unknown = 'a00605' + 'a1060102030405060708' + 'a206020a7f' + 'a50601020304';
    expect(decodeValue(Buffer.from(unknown + '1802' + unknown, 'hex'), [])).toBe(1);
    expect(decodeValue(new Uint8Array(0), [])).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ['a list', [1]],
    ['packed numbers', [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]],
    ['an object', { a: 1, b: 'x' }],
    ['a map', new Map([['a', 1]])],
    ['a set', new Set([1])],
    ['an error', new TypeError('no', { cause: 1 })],
    ['a bigint', 2n ** 70n],
    ['a typed array', Uint16Array.of(1, 2)],
  ])('may have such fields inside of %s, before and after those that are known', (_what, value) => {
    const { bytes } = encodeValue(value);
    const reader = new ByteReader(bytes);
    const [tag, known] = [reader.varint32(), reader.view8()];
    expect([tag < 2 ** 14, reader.pos]).toEqual([true, bytes.length]);
    const head = tag < 128 ? Uint8Array.of(tag) : Uint8Array.of(tag | 128, tag >> 7);
    const unknown = Buffer.from('a00605' + 'a1060102030405060708' + 'a206020a7f' + 'a50601020304', 'hex');
    for (const inner of [
      [unknown, known],
      [known, unknown],
    ]) {
      const contents = Buffer.concat(inner);
      expect(contents.length).toBeLessThan(128);
      const longer = Buffer.concat([head, Uint8Array.of(contents.length), contents]);
      expect(decodeValue(longer, [])).toEqual(value);
    }
  });

  it('has packed numbers of eight bytes each', () => {
    const { bytes } = encodeValue([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]);
    const reader = new ByteReader(bytes);
    const tag = reader.varint32();
    const numbers = Buffer.from(reader.view8()).subarray(-64);
    const packed = (count: number): Uint8Array =>
      Buffer.concat([Uint8Array.of(tag | 128, tag >> 7, count + 2, (1 << 3) | 2, count), numbers.subarray(0, count)]);
    expect(decodeValue(packed(16), [])).toEqual([0.5, 1.5]);
    for (const count of [1, 15, 17, 63])
      expect(() => decodeValue(packed(count), [])).toThrow('packed numbers of a broken length');
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
