/** @file Reading programs get exactly the bytes that they ask for, where they ask for them, however the bytes arrive. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { ByteReader, type ReadProgram } from './byte-reader.ts';

/** Puts `bytes` into the reader in pieces. */
function feed(reader: ByteReader, bytes: Uint8Array, sizes: () => number): void {
  for (let at = 0; at < bytes.length;) {
    const buffer = reader.nextBuffer();
    if (buffer.length === 0) throw new Error('no room for the next byte');
    const count = Math.min(sizes(), buffer.length, bytes.length - at);
    buffer.set(bytes.subarray(at, at + count));
    reader.received(count);
    at += count;
  }
}

describe('ByteReader', () => {
  it.each([1, 7, 16 * 1024, 1 << 20])(
    'fills what a program asks for, and memory that it names, in pieces of %i',
    (piece) => {
      const random = new Random(`byte-reader ${piece}`);
      // On both sides of the size of a chunk; nothing at all, too.
      const parts = [1, 8, 0, 300, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 3, 40_000, 5].map((size) => ({
        size,
        named: random.chance(0.5),
        content: Uint8Array.from({ length: size }, (_, i) => (i * 7 + size) & 0xff),
      }));
      let done = 0;
      const program = function* (): ReadProgram {
        for (const { size, named, content } of [...parts, ...parts.map((part) => ({ ...part, named: !part.named }))]) {
          const memory = new Uint8Array(size);
          const got = yield named ? memory : size;
          if (named) expect(got).toBe(memory);
          expect(Buffer.compare(got, content)).toBe(0);
          done++;
        }
      };
      const reader = new ByteReader(program(), () => undefined);
      const all = Buffer.concat([...parts, ...parts].map(({ content }) => content));
      feed(reader, all, () => random.int(1, piece + 1));
      expect(done).toBe(2 * parts.length);
    },
  );

  it('reads nothing after the end of its program', () => {
    const reader = new ByteReader(
      (function* (): ReadProgram {
        yield new Uint8Array(2);
      })(),
      () => undefined,
    );
    feed(reader, Uint8Array.of(1, 2), () => 2);
    expect(() => reader.received(1)).toThrow(/after the end/);
  });
});
