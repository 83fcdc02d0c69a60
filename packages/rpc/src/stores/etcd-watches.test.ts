/** @file Watches over several members of an etcd: one that stands still, or is cut off from the others, is left, although its connections stay. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { EtcdApi } from './etcd-api.ts';
import { EtcdWatches } from './etcd-watches.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Member {
  readonly endpoint: string;
  /** The watches that it was asked for, which never end. */
  readonly watches: ServerResponse[];
  /** Takes connections, and answers nothing more. */
  standStill(): void;
  /** Refuses requests for a moment; watches go on. */
  busy(): void;
  /** Says that it has no leader, where that is asked. */
  cutOff(): void;
}

async function member(): Promise<Member> {
  const watches: ServerResponse[] = [];
  let state: 'well' | 'still' | 'busy' | 'cut off' = 'well';
  const noLeader = '{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}\n';
  const ending = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (state === 'still') return;
      if (request.url !== '/v3/watch' && state === 'busy') {
        response.writeHead(429).end('{"code":8,"message":"etcdserver: too many requests"}');
        return;
      }
      if (request.url !== '/v3/watch') {
        response.end('{"header":{"revision":"1"}}');
        return;
      }
      watches.push(response);
      const wantsLeader = request.headers['grpc-metadata-hasleader'] === 'true';
      if (wantsLeader) ending.add(response);
      if (wantsLeader && state === 'cut off') response.end(noLeader);
      else response.write('{"result":{"created":true,"header":{"revision":"1"}}}\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    watches,
    standStill: () => void (state = 'still'),
    busy: () => void (state = 'busy'),
    cutOff: () => {
      state = 'cut off';
      for (const watch of ending) watch.end(noLeader);
    },
  };
}

/** Watches at the first of two members. */
async function watching(): Promise<{ first: Member; second: Member; told: unknown[]; api: EtcdApi }> {
  const [first, second] = [await member(), await member()];
  const api = new EtcdApi([first.endpoint, second.endpoint], { requestMs: 300 });
  const watches = new EtcdWatches({
    api,
    range: (prefix) => ({ key: prefix, range_end: prefix }),
    read: () => ({ type: 'delete', key: 'k' }),
    onEnd: () => undefined,
  });
  cleanups.push(() => watches.close());
  const { queue, inForce } = watches.watch('k', undefined);
  const told: unknown[] = [];
  void (async () => {
    for await (const event of queue) told.push(event);
  })();
  await inForce;
  expect([first.watches.length, second.watches.length]).toEqual([1, 0]);
  return { first, second, told, api };
}

test('a watch leaves a member that stands still, also when nobody asks anything', { timeout: 20_000 }, async () => {
  const { first, second, told } = await watching();
  first.standStill();
  await expect.poll(() => second.watches.length, { timeout: 12_000 }).toBe(1);
  await expect.poll(() => told).toEqual([{ type: 'resync', key: 'k' }]);
});

test('a watch leaves a member that did not answer a request', async () => {
  const { first, second, told, api } = await watching();
  first.standStill();
  await api.call('/v3/kv/range', {});
  await expect.poll(() => second.watches.length, { timeout: 3_000 }).toBe(1);
  await expect.poll(() => told).toEqual([{ type: 'resync', key: 'k' }]);
});

test('a busy member keeps its watches, and is left once it says nothing', { timeout: 25_000 }, async () => {
  const { first, second, told, api } = await watching();
  first.busy();
  // Nothing was done there: also what may be done once is asked of the next.
  await api.call('/v3/kv/txn', {}, undefined, true);
  expect(second.watches).toHaveLength(0);
  first.standStill();
  // All else is asked of the second meanwhile, and answered.
  const asking = setInterval(() => void api.call('/v3/kv/range', {}), 100);
  cleanups.push(() => clearInterval(asking));
  await expect.poll(() => second.watches.length, { timeout: 15_000 }).toBe(1);
  await expect.poll(() => told).toEqual([{ type: 'resync', key: 'k' }]);
});

test('a watch leaves a member that is cut off from the others', async () => {
  const { first, second, told } = await watching();
  first.cutOff();
  await expect.poll(() => second.watches.length, { timeout: 5_000 }).toBe(1);
  await expect.poll(() => told).toEqual([{ type: 'resync', key: 'k' }]);
});
