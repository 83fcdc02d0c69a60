/** @file Names drawn at random: their letters, their bits, and where they come from. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { newId, newSecret, newToken, newTokenBytes } from './ids.ts';
import { createAgent, newIdempotencyKey, rpcFunction, rpcSync } from '../index.ts';
import { until } from '../../test/cluster.ts';

const URL_SAFE = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-';
const PLAIN = '0123456789abcdefghijklmnopqrstuvwxyz';

describe.each([
  // What was drawn before had 122 (ids, keys), 128 (tokens) and 256 bits (secrets).
  ['ids', newId, PLAIN, 25, 129],
  ['tokens', newToken, URL_SAFE, 22, 132],
  ['tokens on the wire', () => new TextDecoder().decode(newTokenBytes()), URL_SAFE, 22, 132],
  ['secrets', newSecret, URL_SAFE, 64, 384],
  ['idempotency keys', newIdempotencyKey, URL_SAFE, 22, 132],
])('%s', (_name, draw, alphabet, length, bits) => {
  const drawn = Array.from({ length: 1_000 }, () => draw());

  it(`have ${bits} bits in ${length} letters, each as likely as the others`, () => {
    expect(Math.floor(length * Math.log2(alphabet.length))).toBe(bits);
    const counts = new Map([...alphabet].map((letter) => [letter, 0]));
    for (const text of drawn) {
      expect(text).toHaveLength(length);
      for (const letter of text) counts.set(letter, (counts.get(letter) ?? NaN) + 1);
    }
    const expected = (drawn.length * length) / alphabet.length;
    // Seven standard deviations: once in 10^11 runs.
    for (const [letter, count] of counts) {
      expect(Math.abs(count - expected), `'${letter}' came ${count} times`).toBeLessThan(7 * Math.sqrt(expected));
    }
  });

  it('never come twice', () => {
    expect(new Set(drawn).size).toBe(drawn.length);
  });
});

it('are drawn from the cryptographic generator', () => {
  const bytes = vi.spyOn(globalThis.crypto, 'getRandomValues');
  const weak = vi.spyOn(Math, 'random');
  try {
    for (let i = 0; i < 10_000; i++) newToken(); // past what the generator has drawn ahead
    expect(bytes).toHaveBeenCalled();
    expect(weak).not.toHaveBeenCalled();
  } finally {
    bytes.mockRestore();
    weak.mockRestore();
  }
});

it('are drawn in this one place', () => {
  const sources = ['rpc', 'launch', 'rref', 'dist-autograd', 'profiler', 'backwire'].flatMap((name) => {
    const folder = join(import.meta.dirname, '../../..', name, 'src');
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !/test\.ts$|testdata/.test(file))
      .map((file) => [`${name}/${file}`, readFileSync(join(folder, file), 'utf8')] as const);
  });
  const using = (pattern: RegExp): string[] => sources.filter(([, text]) => pattern.test(text)).map(([file]) => file);
  expect(using(/from 'nanoid/)).toEqual(['rpc/base/ids.ts']);
  expect(using(/randomUUID|randomBytes\([^)]*\)(\.toString\(|\)\.toString)/)).toEqual([]);
});

it('make the tries of one call one call', async () => {
  let runs = 0;
  const count = rpcFunction('ids/count', () => ++runs);
  const agent = await createAgent({ name: 'alone', store: `memory://${newId()}`, rank: 0, worldSize: 1 });
  try {
    const options = { idempotencyKey: newIdempotencyKey(), agent };
    expect(await rpcSync('alone', count, [], options)).toBe(1);
    expect(await rpcSync('alone', count, [], options)).toBe(1);
    expect(await rpcSync('alone', count, [], { idempotencyKey: newIdempotencyKey(), agent })).toBe(2);
    await until(() => agent.debugInfo()['agent.server_active_calls'] === 0);
  } finally {
    await agent.shutdown({ graceful: false });
  }
});
