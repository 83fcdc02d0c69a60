/** @file The digests that browsers compute, against Node's. */
import { createHash, createHmac, hkdfSync, scryptSync } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hkdfSha256, hmacSha256, portable, sameBytes, scrypt, sha256 } from './digest.ts';
import { portableScrypt } from './scrypt.ts';

const bytes = fc.uint8Array({ maxLength: 300 });
const hex = (value: Uint8Array): string => Buffer.from(value).toString('hex');

test('the known vectors (FIPS 180-4, RFC 4231 case 2, RFC 5869 case 1)', () => {
  const text = (value: string): Uint8Array => Buffer.from(value);
  expect(hex(portable.sha256(text('abc')))).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  expect(hex(portable.sha256())).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  expect(hex(portable.hmacSha256(text('Jefe'), text('what do ya want for nothing?')))).toBe(
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  );
  const salt = Buffer.from('000102030405060708090a0b0c', 'hex');
  const info = Buffer.from('f0f1f2f3f4f5f6f7f8f9', 'hex');
  expect(hex(portable.hkdfSha256(new Uint8Array(22).fill(0x0b), salt, info))).toBe(
    '3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf',
  );
});

test('are the same as those of Node, whatever the bytes', () => {
  fc.assert(
    fc.property(bytes, bytes, bytes, (a, b, c) => {
      const digest = createHash('sha256').update(a).update(b).digest('hex');
      expect([hex(sha256(a, b)), hex(portable.sha256(a, b))]).toEqual([digest, digest]);
      const mac = createHmac('sha256', a).update(b).update(c).digest('hex');
      expect([hex(hmacSha256(a, b, c)), hex(portable.hmacSha256(a, b, c))]).toEqual([mac, mac]);
      const key = Buffer.from(hkdfSync('sha256', a, b, c, 32)).toString('hex');
      expect([hex(hkdfSha256(a, b, c)), hex(portable.hkdfSha256(a, b, c))]).toEqual([key, key]);
    }),
    { numRuns: 200 },
  );
});

test('bytes are compared whole, and lengths too', () => {
  fc.assert(
    fc.property(bytes, bytes, (a, b) => {
      const same = Buffer.compare(a, b) === 0;
      expect([sameBytes(a, b), portable.sameBytes(a, b)]).toEqual([same, same]);
      expect(portable.sameBytes(a, Uint8Array.from(a))).toBe(true);
    }),
  );
});

test('scrypt of browsers is that of RFC 7914 (vectors 1 and 2) and of Node', () => {
  const text = (value: string): Uint8Array => Buffer.from(value);
  const run = (secret: string, salt: string, N: number, r: number): string =>
    hex(portableScrypt(portable.hmacSha256, text(secret), text(salt), { N, r }));
  expect(run('', '', 16, 1)).toBe('77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442');
  expect(run('a secret', 'a group', 1_024, 8)).toBe(
    hex(scryptSync('a secret', 'a group', 32, { N: 1_024, r: 8, p: 1 })),
  );
  expect(run('a secret', 'a group', 16_384, 8)).toBe(hex(scrypt(text('a secret'), text('a group'))));
});
