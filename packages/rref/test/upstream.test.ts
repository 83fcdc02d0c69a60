/** PyTorch's own RRef tests that have no counterpart elsewhere here, with dense and with sparse tensors. */
import { currentAgent, getWorkerInfo, rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { add, ones, rpcName, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

const sparse = (): Tensor => sparseCooTensor(tensor([[0, 1]], { dtype: 'int64' }), tensor([2, 3]), [2]);
const dense = (t: Tensor): unknown => (t.layout === 'sparse_coo' ? t.toDense() : t).toArray();

const identity = rpcFunction('upstream/identity', (value: unknown) => value);
const addUp = rpcFunction('upstream/add-up', (a: number, b: number, c = 0) => a + b + c);
const fetch = rpcFunction('upstream/fetch', (rref: RRef<Tensor>) => rref.toHere());
const fetchSum = rpcFunction('upstream/fetch-sum', async (a: RRef<Tensor>, b: RRef<Tensor>) =>
  (await a.toHere()).add(await b.toHere()),
);
const nestedRemote = rpcFunction('upstream/nested-remote', (to: string) => remote(to, add, [ones([2]), 2]).toHere());
const nestedRRef = rpcFunction(
  'upstream/nested-rref',
  (to: string, value: Tensor) => [remote(to, identity, [value]), remote(to, identity, [value])] as RRef<Tensor>[],
);

class Stateful {
  static readonly [rpcName] = 'upstream/Stateful';
  private readonly values: unknown[] = [];
  push(value: number): number {
    return this.values.push(value);
  }
  async slow(ms: number, value: number): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return value;
  }
  async viaAnother(to: string, value: number): Promise<number> {
    return rpcAsync(to, addUp, [value, 1]);
  }
  get(): unknown[] {
    return this.values;
  }
  static async twice(to: string, value: number): Promise<number> {
    return rpcAsync(to, addUp, [value, value]);
  }
}
rpcClass(Stateful, { methods: ['push', 'slow', 'viaAnother', 'get'], statics: ['twice'] });
type WithStatics = Stateful & { twice(to: string, value: number): Promise<number> };

/** Runs on the owner and changes its value. */
const appendOn = rpcFunction('upstream/append-on', async (rref: RRef<Stateful>, value: number) =>
  (await rref.localValue()).push(value),
);
const makeSlowly = rpcFunction('upstream/slow-stateful', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return new Stateful();
});

describe.each([
  { kind: 'dense', make: () => tensor([2, 3]) },
  { kind: 'sparse', make: sparse },
])('with $kind tensors', ({ make }) => {
  it.each(['w1', 'w0'])(
    'an RRef of this worker made by a call is an argument of a call and of a remote call to %s',
    (to) =>
      withGroup(2, async () => {
        const own = remote('w0', identity, [make()]) as RRef<Tensor>;
        expect(dense(await rpcSync(to, fetch, [own]))).toEqual([2, 3]);
        expect(dense(await rpcAsync(to, fetch, [own]))).toEqual([2, 3]);
        expect(dense(await remote(to, fetch, [own]).toHere())).toEqual([2, 3]);
      }),
  );

  it('RRefs go back to their owner, and on to a third worker', () =>
    withGroup(3, async () => {
      const a = remote('w1', identity, [make()]) as RRef<Tensor>;
      const b = remote('w1', identity, [make()]) as RRef<Tensor>;
      expect(dense(await remote('w1', fetchSum, [a, b]).toHere())).toEqual([4, 6]);
      expect(dense(await rpcSync('w1', fetchSum, [a, b]))).toEqual([4, 6]);
      expect(dense(await remote('w2', fetchSum, [a, b]).toHere())).toEqual([4, 6]);
    }));

  it('RRefs of RRefs are unwrapped, twenty at once', () =>
    withGroup(3, async () => {
      const all = Array.from({ length: 20 }, () => remote('w1', nestedRRef, ['w2', make()]));
      for (const rref of all) {
        const [a, b] = (await rref.toHere()) as [RRef<Tensor>, RRef<Tensor>];
        expect([dense(await a.toHere()), dense(await b.toHere())]).toEqual([
          [2, 3],
          [2, 3],
        ]);
      }
    }));
});

describe('results that stay', () => {
  it.each(['w0', 'w1'])('of tensor operations and of functions, one and many, on %s', (owner) =>
    withGroup(2, async () => {
      expect((await remote(owner, add, [ones([2]), ones([2])]).toHere()).toArray()).toEqual([2, 2]);
      const many = Array.from({ length: 10 }, (_, n) => remote(owner, add, [tensor([n]), n]));
      expect(await Promise.all(many.map(async (rref) => (await rref.toHere()).item()))).toEqual(
        many.map((_, n) => 2 * n),
      );
      const sums = Array.from({ length: 10 }, (_, n) => remote(owner, addUp, [n, n, n]));
      expect(await Promise.all(sums.map((rref) => rref.toHere()))).toEqual(sums.map((_, n) => 3 * n));
    }),
  );

  it('of a function that makes another one elsewhere', () =>
    withGroup(3, async () => {
      expect((await remote('w1', nestedRemote, ['w2']).toHere()).toArray()).toEqual([3, 3]);
    }));

  it('have a future for their creation: confirmed()', () =>
    withGroup(2, async () => {
      const all = [
        remote('w1', add, [ones([1]), 1]),
        remote('w1', identity, [1]),
        remote('w1', Stateful),
      ] as RRef<unknown>[];
      await Promise.all(all.map((rref) => rref.confirmed()));
      expect(all.map((rref) => rref.confirmedByOwner())).toEqual([true, true, true]);
    }));
});

describe('owners', () => {
  it('are equal when they are one worker', () =>
    withGroup(3, async () => {
      const [a, b, c] = [remote('w1', identity, [1]), remote('w1', identity, [1]), remote('w2', identity, [1])];
      expect(a?.owner()).toEqual(b?.owner());
      expect(a?.owner().id).not.toBe(c?.owner().id);
      expect(new Set([a, b, c].map((rref) => rref?.owner().id)).size).toBe(2);
      expect(a?.owner().name).toBe(getWorkerInfo('w1').name);
    }));

  it('keep what functions run there have changed', () =>
    withGroup(2, async () => {
      const rref = remote('w1', Stateful);
      for (const value of [1, 2]) await rpcSync(rref.owner(), appendOn, [rref, value]);
      await remote(rref.owner(), appendOn, [rref, 3]).toHere();
      expect(await rref.rpcSync().get()).toEqual([1, 2, 3]);
    }));
});

describe('asynchronous methods', () => {
  it.each(['sync', 'async', 'remote'] as const)('bound and static ones that call on, through the proxy: %s', (kind) =>
    withGroup(3, async () => {
      const rref = remote('w1', Stateful) as unknown as RRef<WithStatics>;
      if (kind === 'remote') {
        expect(await rref.remote().viaAnother('w2', 4).toHere()).toBe(5);
        expect(await rref.remote().twice('w2', 4).toHere()).toBe(8);
        return;
      }
      const proxy = kind === 'sync' ? rref.rpcSync() : rref.rpcAsync();
      expect(await proxy.viaAnother('w2', 4)).toBe(5);
      expect(await proxy.twice('w2', 4)).toBe(8);
    }),
  );
});

describe('timeouts', () => {
  it('of a type query, whose value is still being made', () =>
    withGroup(2, async () => {
      const rref = remote('w1', makeSlowly, [150]);
      await expect(rref.typeName({ timeoutMs: 20 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
      expect(await rref.typeName({ timeoutMs: 5_000 })).toBe('upstream/Stateful');
    }));

  it('of a proxy hold for its calls, on their way to a value that is being made and in the method', () =>
    withGroup(2, async () => {
      const rref = remote('w1', Stateful);
      await rref.confirmed();
      await expect(rref.rpcSync({ timeoutMs: 20 }).slow(200, 1)).rejects.toThrow('RPC ran for more than set timeout');
      await expect(rref.rpcAsync({ timeoutMs: 20 }).slow(200, 1)).rejects.toMatchObject({ code: 'deadline-exceeded' });
      await expect(rref.remote({ timeoutMs: 20 }).slow(200, 1).toHere()).rejects.toThrow(
        'RRef creation via rpc.remote() timed out',
      );
      const late = remote('w1', makeSlowly, [200]);
      await expect(late.rpcSync({ timeoutMs: 20 }).push(1)).rejects.toMatchObject({ code: 'deadline-exceeded' });
      expect(await rref.rpcSync({ timeoutMs: 0 }).slow(10, 7)).toBe(7);
    }));
});

it('an RRef travels in calls only', () =>
  withGroup(1, async () => {
    const rref = createRRef(1);
    expect(() => encodeValue(rref)).toThrow(/RRefHandle/);
    const carrier = sessionOf(currentAgent()).values[0];
    expect(() => carrier?.encode(rref, getWorkerInfo())).toThrow('rref can only be pickled when using RPC');
    // JSON says what it is; nothing can be made of it again.
    expect(JSON.stringify(rref)).toBe(JSON.stringify(String(rref)));
  }));
