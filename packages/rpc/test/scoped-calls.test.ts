/** @file Handlers in a scope: what they got, made and answered is freed when the answer is out, not when the collector comes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, keep, memory, ones, type Tensor } from '@backwire/tensor';
import { rpcFunction, rpcSync } from '../src/index.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const kept: Tensor[] = [];
const table = ones([30_000]);
const scoped = { scope: true };
const echo = rpcFunction('scoped/echo', (x: Tensor) => x, scoped);
const sum = rpcFunction('scoped/sum', async (x: Tensor) => add(add(x, x), await Promise.resolve(x)), scoped);
const keeps = rpcFunction('scoped/keeps', (x: Tensor) => void kept.push(keep(x)), scoped);
const known = rpcFunction('scoped/known', () => table, scoped);
const fails = rpcFunction(
  'scoped/fails',
  (x: Tensor): number => {
    throw new RangeError(`no ${x.size}`);
  },
  scoped,
);

const last = (x: Tensor): unknown => (x.toArray() as unknown[]).at(-1);

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(2);
});
afterAll(() => cluster.close());

describe('a handler in a scope', () => {
  it.each([4, 30_000, 300_000])('leaves nothing of arguments, temporaries and results of %i floats', async (size) => {
    const x = ones([size]);
    await cluster.at(0).run(async () => {
      const before = memory().storages;
      for (let i = 0; i < 5; i++) {
        const [same, tripled] = [await rpcSync('w1', echo, [x]), await rpcSync('w1', sum, [x])];
        expect([last(same), last(tripled)]).toEqual([1, 3]);
        same.dispose();
        tripled.dispose();
      }
      await expect(rpcSync('w1', fails, [x])).rejects.toThrow(`no ${size}`);
      // The peer's word that it has all of a storage may be on its way.
      await until(() => memory().storages <= before);
    });
    x.dispose();
  });

  it('leaves what it kept and what was there before', async () => {
    const x = ones([30_000]);
    await cluster.at(0).run(async () => {
      await rpcSync('w1', keeps, [x]);
      for (let i = 0; i < 3; i++) (await rpcSync('w1', known)).dispose();
    });
    expect([kept, [table]].map(([t]) => last(t as Tensor))).toEqual([1, 1]);
  });
});
