/** @file A Redis that wants another password says so at once, and is not asked again until the time to open a store is over. */
import { connect } from 'node:net';
import { isInstalled } from '@backwire/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { cleanUp, cleanups, serve } from '../../test/store-servers.ts';
import { openStore } from './open.ts';

afterEach(cleanUp);

const missing = !isInstalled('redis');

describe.skipIf(missing)(missing ? 'redis (skipped: no redis-server on this machine)' : 'redis', () => {
  async function withPassword(): Promise<number> {
    const { port } = await serve('redis');
    const { store } = await openStore(`redis://127.0.0.1:${port}`, { timeoutMs: 30_000 });
    await store.close();
    const socket = connect(port, '127.0.0.1');
    cleanups.push(() => socket.destroy());
    socket.write('CONFIG SET requirepass right\r\n');
    await new Promise((resolve) => socket.once('data', resolve));
    return port;
  }

  test.each([':wrong@', ''])(
    'a store opened with "%s" is told so at once',
    async (password) => {
      const port = await withPassword();
      const began = performance.now();
      const opening = openStore(`redis://${password}127.0.0.1:${port}`, { timeoutMs: 25_000 });
      await expect(opening).rejects.toMatchObject({ code: 'unauthenticated' });
      expect(performance.now() - began).toBeLessThan(12_000);
      const { store } = await openStore(`redis://:right@127.0.0.1:${port}`, { timeoutMs: 25_000 });
      await store.close();
    },
    60_000,
  );
});
