/** @file The embedded store through a network that resets, damages and holds back: what is answered is true, what fails says so. */
import { afterEach, describe, expect, test } from 'vitest';
import { ChaosProxy, type ChaosRates } from '@backwire/testing';
import { RpcError } from '../base/errors.ts';
import { findKeys } from '../security/secret.ts';
import { embeddedStore, type EmbeddedStore } from './embedded.ts';
import { serveStore, type StoreServer } from './embedded-server.ts';

const secret = 'sixteen bytes and more';
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function through(
  seed: string,
  rates: Partial<ChaosRates>,
): Promise<{ server: StoreServer; proxy: ChaosProxy; store: EmbeddedStore; sane: EmbeddedStore }> {
  const server = await serveStore({ secret });
  const proxy = await ChaosProxy.start({ target: { port: server.port }, seed });
  const keys = findKeys({ secret });
  const sane = await embeddedStore({ endpoint: server.endpoint, keys });
  const store = await embeddedStore({ endpoint: `tcp://127.0.0.1:${proxy.port}`, keys });
  Object.assign(proxy.up, rates);
  Object.assign(proxy.down, rates);
  cleanups.push(
    () => server.close(),
    () => proxy.close(),
    () => sane.close(),
    () => store.close(),
  );
  return { server, proxy, store, sane };
}

const weathers: [string, Partial<ChaosRates>][] = [
  ['resets', { reset: 0.02, sliceBytes: 40 }],
  ['slices and delays', { sliceBytes: 3, latencyMs: 1, jitterMs: 2 }],
];

describe.each(weathers)('%s', (name, rates) => {
  test(
    'counts are exact where they were answered, and a failed one counted once or not at all',
    { timeout: 60_000 },
    async () => {
      const { store, sane } = await through(`count ${name}`, rates);
      let done = 0;
      let failed = 0;
      const seen = new Set<bigint>();
      for (let round = 0; round < 40; round++) {
        const results = await Promise.allSettled(Array.from({ length: 5 }, () => store.add('n', 1n)));
        for (const result of results) {
          if (result.status === 'fulfilled') {
            done++;
            expect(seen.has(result.value)).toBe(false);
            seen.add(result.value);
          } else {
            failed++;
            expect(result.reason).toBeInstanceOf(RpcError);
            expect((result.reason as RpcError).code).toBe('unavailable');
          }
        }
      }
      const total = Number(await sane.add('n', 0n));
      expect(total).toBeGreaterThanOrEqual(done);
      expect(total).toBeLessThanOrEqual(done + failed);
      expect(done).toBeGreaterThan(0);
    },
  );

  test(
    'reads and waits need no second try of the caller; a watch misses nothing it does not own up to',
    { timeout: 60_000 },
    async () => {
      const { store, sane } = await through(`read ${name}`, rates);
      const known = new Map<string, string>();
      const controller = new AbortController();
      const text = (value: Uint8Array | undefined): string => Buffer.from(value ?? []).toString();
      const watching = (async () => {
        for await (const event of store.watch('k/', { signal: controller.signal })) {
          if (event.type === 'put') known.set(event.key, text(event.value));
          if (event.type === 'resync') for (const [key, value] of await store.list('k/')) known.set(key, text(value));
        }
      })();
      await store.get('begin');
      for (let i = 0; i < 60; i++) {
        await sane.set(`k/${i % 7}`, Buffer.from(`${i}`));
        expect(text(await store.get(`k/${i % 7}`))).toBe(`${i}`);
      }
      const waiting = store.wait(['k/late'], { timeoutMs: 30_000 });
      await sane.set('k/late', Buffer.from('x'));
      await waiting;
      const truth = new Map([...(await sane.list('k/'))].map(([key, value]) => [key, text(value)]));
      await expect.poll(() => Object.fromEntries(known), { timeout: 20_000 }).toEqual(Object.fromEntries(truth));
      controller.abort();
      await watching;
    },
  );
});

test('a lease survives resets in a row', { timeout: 60_000 }, async () => {
  const { proxy, store, sane } = await through('lease', {});
  const lease = await store.lease(30_000);
  await store.set('member', Buffer.from('1'), { lease });
  for (let i = 0; i < 5; i++) {
    proxy.resetAll();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(await sane.get('member')).toBeDefined();
});
