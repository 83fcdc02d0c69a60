/** @file A Redis whose memory is full: it takes nothing new, and what it holds stays. */
import { afterEach, describe, expect, test } from 'vitest';
import { isInstalled } from '@backwire/testing';
import { bytes, cleanUp, cleanups, redisSays, serve, sleep, text } from '../../test/store-servers.ts';
import { openStore } from './open.ts';

afterEach(cleanUp);

const missing = !isInstalled('redis');

describe.skipIf(missing)(`a full Redis${missing ? ' (skipped: it is not installed)' : ''}`, { timeout: 30_000 }, () => {
  test('renews leases, and says why it takes nothing else', async () => {
    const { port } = await serve('redis');
    const { store } = await openStore(`redis://127.0.0.1:${port}`, { group: 'g', timeoutMs: 20_000 });
    cleanups.push(() => store.close());
    const lease = await store.lease(1_000);
    let lost: Error | undefined;
    void lease.lost.then((error) => (lost = error));
    await store.set('member', bytes('here'), { lease });
    await redisSays(port, 'CONFIG', 'SET', 'maxmemory', '1');
    const refused = {
      code: 'resource-exhausted',
      message: expect.stringMatching(/^Redis at redis:[^ ]*: OOM [^@]*$/) as string,
    };
    await expect(store.set('other', bytes('x'))).rejects.toMatchObject(refused);
    await sleep(3_000);
    expect(lost).toBeUndefined();
    expect(text(await store.get('member'))).toBe('here');
    await redisSays(port, 'CONFIG', 'SET', 'maxmemory', '0');
    await store.set('other', bytes('x'));
  });
});
