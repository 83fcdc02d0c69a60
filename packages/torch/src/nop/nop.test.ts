/** @file libnop: every value is written in its shortest form and read again; what is malformed is refused. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NopReader } from './reader.ts';
import { NopWriter } from './writer.ts';

const LIMITS = { maxEntries: 1_000, maxStringBytes: 10_000 };
const read = (bytes: Uint8Array): NopReader => new NopReader(bytes, LIMITS);
const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));

describe('integers', () => {
  it.each([
    [0, '00'],
    [127, '7f'],
    [128, '80 80'],
    [255, '80 ff'],
    [256, '81 0001'],
    [65_535, '81 ffff'],
    [65_536, '82 00000100'],
    [2 ** 32 - 1, '82 ffffffff'],
    [2 ** 32, '83 0000000001000000'],
    [2 ** 53 - 1, '83 ffffffffffff1f00'],
  ])('%i is %s', (value, bytes) => {
    expect(new NopWriter().uint(value).finish()).toEqual(hex(bytes));
    const reader = read(hex(bytes));
    expect(reader.uint()).toBe(value);
    reader.end();
  });

  it.each(['84 01', 'ff', 'c0', 'b9 00', '83 ffffffffffffffff', '81 00', ''])('%s is refused', (bytes) => {
    expect(() => read(hex(bytes)).uint()).toThrow(/^decode-error/);
  });

  it.each([-1, 0.5, 2 ** 53])('%d is not written', (value) => {
    expect(() => new NopWriter().uint(value)).toThrow(RangeError);
  });
});

describe('values', () => {
  it('of all kinds are read as they were written', () => {
    const uint = fc.oneof(fc.nat(300), fc.maxSafeNat());
    const map = fc
      .array(fc.tuple(fc.string({ unit: 'binary' }), uint), { maxLength: 20 })
      .map((entries) => new Map(entries));
    fc.assert(
      fc.property(
        uint,
        fc.string({ unit: 'binary' }),
        fc.array(uint, { maxLength: 50 }),
        map,
        fc.boolean(),
        (n, text, list, entries, there) => {
          const writer = new NopWriter();
          writer.structure(5).uint(n).string(text).vector(list);
          writer.map(
            entries,
            (key) => writer.string(key),
            (value) => writer.uint(value),
          );
          writer
            .array(list, (value) => writer.uint(value))
            .variant(1)
            .pair()
            .uint(n)
            .string(text);
          if (there) writer.uint(7);
          const bytes = there ? writer.finish() : Uint8Array.of(...writer.finish(), 0xbe);
          const reader = read(bytes);
          reader.structure(5);
          expect([reader.uint(), reader.string(), reader.vector()]).toEqual([n, text, list]);
          expect(
            reader.map(
              () => reader.string(),
              () => reader.uint(),
            ),
          ).toEqual(entries);
          expect(reader.array(() => reader.uint())).toEqual(list);
          expect(reader.variant()).toBe(1);
          expect(
            reader.pair(
              () => reader.uint(),
              () => reader.string(),
            ),
          ).toEqual([n, text]);
          expect(reader.optional(() => reader.uint())).toBe(there ? 7 : undefined);
          reader.end();
        },
      ),
      { seed: 20_260_701, numRuns: 300 },
    );
  });

  const cases: [string, string, (reader: NopReader) => unknown, RegExp][] = [
    [
      'a string that is too long',
      'bd 82 ffffffff',
      (r) => r.string(),
      /string of a handshake \(4294967295 over the limit/,
    ],
    ['a string that is cut off', 'bd 05 6161', (r) => r.string(), /cut off/],
    ['a string that is no UTF-8', 'bd 01 ff', (r) => r.string(), /not UTF-8/],
    ['a structure of other fields', 'b9 03', (r) => r.structure(2), /3 fields, not 2/],
    [
      'an array that is too long',
      'ba 82 ffffff00',
      (r) => r.array(() => r.uint()),
      /entries \(16777215 over the limit of 1000\)/,
    ],
    ['an array longer than its bytes', 'ba 05 01', (r) => r.array(() => r.uint()), /5 entries in fewer bytes/],
    [
      'a map longer than its bytes',
      'bb 40',
      (r) =>
        r.map(
          () => r.uint(),
          () => r.uint(),
        ),
      /64 entries in fewer bytes/,
    ],
    ['a vector of half a number', 'bc 04 00000000', (r) => r.vector(), /vector of 4 bytes/],
    ['a vector that is too long', 'bc 82 00000080', (r) => r.vector(), /entries of a vector/],
    ['a vector with a large number', 'bc 08 ffffffffffffffff', (r) => r.vector(), /past 2\^53/],
    [
      'a pair of three',
      'ba 03',
      (r) =>
        r.pair(
          () => r.uint(),
          () => r.uint(),
        ),
      /other than two/,
    ],
    ['something else', '00', (r) => r.string(), /no string but 0x0/],
    ['more than there should be', '00 00', (r) => (r.uint(), r.end()), /1 bytes after/],
  ];
  it.each(cases)('%s is refused', (_, bytes, act, message) => {
    expect(() => act(read(hex(bytes)))).toThrow(message);
  });
});
