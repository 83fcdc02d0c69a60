/** @file A store in Redis that is closed while its connections are made anew: none is left behind. */
import { afterEach, describe, expect, test } from 'vitest';
import { isInstalled } from '@backwire/testing';
import { cleanUp, proxy, serve, sleep } from '../../test/store-servers.ts';
import { redisStore } from './redis.ts';

afterEach(cleanUp);

const missing = !isInstalled('redis');

describe.skipIf(missing)(`a Redis out of reach${missing ? ' (skipped: it is not installed)' : ''}`, () => {
  test('a store that is closed while it connects leaves no connection', { timeout: 60_000 }, async () => {
    const { port } = await serve('redis');
    const way = await proxy(port);
    const url = `redis://localhost:${way.port}`;
    for (let ms = 0; ms < 12; ms++) {
      const store = await redisStore({ url, timeoutMs: 20_000 });
      for (const socket of way.open) socket.destroy();
      await sleep(ms / 2);
      await store.close();
    }
    for (let ms = 0; ms < 12; ms++) {
      const opening = redisStore({ url, signal: AbortSignal.timeout(ms) }).catch(() => undefined);
      await (await opening)?.close();
    }
    await expect.poll(() => way.open.size, { timeout: 5_000 }).toBe(0);
  });
});
