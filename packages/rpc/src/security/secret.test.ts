/** @file Where secrets come from, which are refused, and what is bound without one. */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { createAgent } from '../index.ts';
import { resolveSecurity, userKeys } from './policy.ts';
import { deriveKey, findKeys, keyIdIn, type Keys } from './secret.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const keysOf = (secret: string): Keys => findKeys({ secret, env: {} }) as Keys;
const ours = keysOf('sixteen bytes and more');
const idOf = (keys: Keys | undefined): string | undefined => keys && keyIdIn(keys[0], 'g');

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

describe('secrets', () => {
  test('are not among what is printed of an agent, and can be posted to a thread all the same', async () => {
    const security = { mode: 'hmac', secret: 'sixteen bytes and more' } as const;
    const agent = await createAgent({ name: 'w0', worldSize: 1, store: 'memory://secret-test', security });
    cleanups.push(() => agent.shutdown({ graceful: false }));
    const bytes = [...Buffer.from(security.secret)].join(',');
    const printed = inspect(agent, { depth: 8, maxArrayLength: null, maxStringLength: null });
    expect(printed).toContain('[not shown]');
    expect(printed).not.toContain(security.secret);
    expect(printed.replaceAll(/\s/g, '').includes(bytes)).toBe(false);
    const certificates = { mode: 'mtls', key: '-----BEGIN PRIVATE KEY-----', cert: 'c', ca: 'a' } as const;
    expect(inspect(resolveSecurity(certificates, { env: {} }), { depth: 9 })).not.toContain('PRIVATE KEY');
    expect(structuredClone(ours)).toEqual(ours);
  });

  test('come from the option, the file, the environment, in that order', () => {
    const directory = scratch();
    const file = join(directory, 'secret');
    writeFileSync(file, 'a secret from a file\n', { mode: 0o600 });
    const env = { BACKWIRE_SECRET: 'a secret from the environment', BACKWIRE_SECRET_FILE: file };
    const id = (secret: string): string | undefined => idOf(keysOf(secret));
    expect(idOf(findKeys({ secret: 'a secret from the option', secretFile: file, env }))).toBe(
      id('a secret from the option'),
    );
    expect(idOf(findKeys({ secretFile: file, env }))).toBe(id('a secret from a file'));
    expect(idOf(findKeys({ env }))).toBe(id('a secret from the environment'));
    expect(idOf(findKeys({ env: { BACKWIRE_SECRET_FILE: file } }))).toBe(id('a secret from a file'));
    expect(findKeys({ env: {} })).toBeUndefined();
    expect(findKeys({ secret: randomBytes(16), env: {} })).toHaveLength(1);
    expect(findKeys({ secret: 'the new secret 2026-12\nthe old secret 2026-11\n', env: {} })).toHaveLength(2);
  });

  test('that are short, placeholders, too many, or readable by others are refused', () => {
    const file = join(scratch(), 'secret');
    writeFileSync(file, 'a secret from a file\n', { mode: 0o644 });
    chmodSync(file, 0o644);
    for (const secret of [
      'short',
      '',
      'aaaaaaaaaaaaaaaaaaaaaaa',
      [1, 2, 3].map((n) => `secret number ${n} of them`).join('\n'),
    ]) {
      expect(() => findKeys({ secret, env: {} })).toThrow(RpcError);
    }
    expect(() => findKeys({ secretFile: file, env: {} })).toThrow(/mode 0644.*chmod 600/);
    expect(() => findKeys({ secretFile: join(scratch(), 'none'), env: {} })).toThrow(/cannot be read/);
  });

  test('give different keys for different groups and purposes', () => {
    const hex = (group: string, purpose: string): string =>
      Buffer.from(deriveKey(ours[0], group, purpose)).toString('hex');
    expect(new Set([hex('g', 'hmac'), hex('h', 'hmac'), hex('g', 'tls')]).size).toBe(3);
    expect(hex('g', 'hmac')).toHaveLength(64);
  });
});

describe('what is bound where', () => {
  const env = { BACKWIRE_SECRET: 'a secret from the environment' };
  test('beyond loopback needs a secret or a plain word', () => {
    expect(() => resolveSecurity(undefined, { bind: '0.0.0.0', env: {} })).toThrow(/other machines reach 0.0.0.0/);
    expect(resolveSecurity(undefined, { bind: '0.0.0.0', env })).toMatchObject({ mode: 'psk' });
    expect(resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: '0.0.0.0', env: {} })).toMatchObject({
      mode: 'none',
      keys: undefined,
    });
    expect(() => resolveSecurity({ mode: 'none' } as never, {})).toThrow(/iUnderstand/);
    expect(() => resolveSecurity({ mode: 'hmac' }, { env: {} })).toThrow(/BACKWIRE_SECRET/);
    expect(
      idOf(resolveSecurity({ mode: 'hmac', secret: 'sixteen bytes and more' }, { bind: '10.0.0.1', env: {} }).keys),
    ).toBe(idOf(ours));
  });

  test.each(['127.0.0.1', 'localhost', '::1', undefined])(
    'loopback (%s) has the secret of the environment or of the user',
    (bind) => {
      expect(resolveSecurity(undefined, { bind, env })).toMatchObject({ mode: 'hmac', automatic: false });
      expect(resolveSecurity(undefined, { bind, env: {} })).toMatchObject({ mode: 'hmac', automatic: true });
    },
  );

  test('the secret of the user is kept in a private file, the same for all of its processes', () => {
    const directory = join(scratch(), 'own');
    const first = userKeys(directory);
    expect(idOf(userKeys(directory))).toBe(idOf(first));
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(join(directory, 'secret')).mode & 0o777).toBe(0o600);
    expect(idOf(userKeys(join(scratch(), 'own')))).not.toBe(idOf(first));
  });

  test('a file or directory that is not the user alone is refused', () => {
    const directory = join(scratch(), 'own');
    userKeys(directory);
    chmodSync(join(directory, 'secret'), 0o640);
    expect(() => userKeys(directory)).toThrow(/not this user's alone/);
    chmodSync(join(directory, 'secret'), 0o600);
    chmodSync(directory, 0o755);
    expect(() => userKeys(directory)).toThrow(/not this user's alone/);
    const link = join(scratch(), 'link');
    symlinkSync(scratch(), link);
    expect(() => userKeys(link)).toThrow(/not this user's alone/);
  });

  test('what keeps a secret from being kept is said', () => {
    const file = join(scratch(), 'file');
    writeFileSync(file, '');
    const directory = join(file, 'own');
    expect(() => userKeys(directory)).toThrow(
      `no secret was given and none can be kept in '${directory}' (ENOTDIR: not a directory, mkdir '${directory}'): set BACKWIRE_SECRET [failed-precondition]`,
    );
  });
});
