/** @file PyTorch's tests of `remote()`: asynchronous functions, sparse tensors, every kind of destination. */
import { getWorkerInfo, rpcAsync, rpcClass, rpcFunction, rpcInfo, rpcSync, type AnyFn, type To } from '@backwire/rpc';
import { add, ones, rpcName, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { agent, counters, withGroup } from './group.ts';
import { remote, rrefDebugInfo } from '../src/index.ts';

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));
const sparse = (): Tensor => sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
const uncoalesced = (): Tensor => sparseCooTensor(tensor([[2, 2, 0]], { dtype: 'int64' }), tensor([1, 3, 5]), [4]);
const dense = (t: Tensor): unknown => (t.layout === 'sparse_coo' ? t.toDense() : t).toArray();

const raise = rpcFunction('upstream-remote/raise', (): Promise<number> => {
  throw new RangeError('before anything was awaited');
});
const resolver = rpcFunction(
  'upstream-remote/resolver',
  (x: number) => new Promise<number>((resolve) => setTimeout(resolve, 1, x + 1)),
);
const chained = rpcFunction('upstream-remote/chained', (to: string, x: Tensor, y: Tensor, z: number) =>
  rpcAsync(to, add, [x, y]).then((sum) => sum.add(z)),
);
const nested = rpcFunction('upstream-remote/nested', (to: string, via: string, x: Tensor) =>
  rpcAsync(to, chained, [via, x, x, 1]),
);
const steps = rpcFunction('upstream-remote/steps', (to: string, x: Tensor, count: number, by: number) => {
  let sum = Promise.resolve(x);
  for (let i = 0; i < count; i++) sum = sum.then((value) => rpcAsync(to, add, [value, by]));
  return sum;
});
const fanOut = rpcFunction('upstream-remote/fan-out', async (to: string, x: Tensor, count: number, by: number) => {
  const parts = await Promise.all(Array.from({ length: count }, () => rpcAsync(to, add, [x, by])));
  return parts.reduce((sum, part) => sum.add(part));
});
const promiseInside = rpcFunction('upstream-remote/promise-inside', () => ({ later: Promise.resolve(1) }));
const generator = rpcFunction('upstream-remote/generator', function* () {
  yield 1;
});

/** What it holds cannot travel; what it computes can. */
class Holder {
  static readonly [rpcName] = 'upstream-remote/Holder';
  private readonly callbacks = [(x: number) => x * 2];
  private readonly waiting = new Promise(() => undefined);
  call(x: number): number {
    return this.waiting === undefined ? 0 : (this.callbacks[0] as (x: number) => number)(x);
  }
}
rpcClass(Holder, { methods: ['call'] });

const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('no failure'),
    (error: unknown) => error as Error,
  );

describe('remote of an asynchronous function', () => {
  it('brings what it throws before its first await to toHere', () =>
    withGroup(2, async () => {
      const error = await failure(remote('w1', raise).toHere());
      expect(error).toBeInstanceOf(RangeError);
      expect(error.message).toContain('before anything was awaited');
    }));

  it('refers to what a promise made by hand is resolved with', () =>
    withGroup(2, async () => {
      expect(await remote('w1', resolver, [41]).toHere()).toBe(42);
    }));

  it('refers to the end of a chain', () =>
    withGroup(3, async () => {
      const sum = remote('w1', chained, ['w2', ones([2]), ones([2]), 1]);
      expect((await sum.toHere()).toArray()).toEqual([3, 3]);
    }));

  it('refers to what another asynchronous function gave', () =>
    withGroup(3, async () => {
      const sum = remote('w1', nested, ['w2', 'w0', ones([2])]);
      expect((await sum.toHere()).toArray()).toEqual([3, 3]);
    }));

  it('waits for twenty calls that depend on one another', () =>
    withGroup(3, async () => {
      expect((await remote('w1', steps, ['w2', ones([2]), 20, 2]).toHere()).toArray()).toEqual([41, 41]);
    }));

  it('waits for twenty calls at once', () =>
    withGroup(3, async () => {
      expect((await remote('w1', fanOut, ['w2', ones([2]), 20, 1]).toHere()).toArray()).toEqual([40, 40]);
    }));

  it('of the wrong kind says so when its value is asked for', () =>
    withGroup(2, async () => {
      const error = await failure(remote('w1', generator as unknown as AnyFn & typeof generator).toHere());
      expect(error.message).toContain('a generator is called with rpcStream()');
    }));

  it('keeps a promise inside of its value there: fetching it is refused', () =>
    withGroup(2, async () => {
      const error = await failure(remote('w1', promiseInside).toHere());
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(/Promise/);
    }));

  it('says cancelled in words when its signal has aborted', () =>
    withGroup(2, async () => {
      const reason = new Error('not any more');
      const error = await failure(remote('w1', resolver, [1], { signal: AbortSignal.abort(reason) }).toHere());
      expect(rpcInfo(error)?.code).toBe('cancelled');
      expect(error.message).toContain('cancelled');
      await pause();
    }));
});

describe.each([
  ['dense', () => ones([4]), [2, 2, 2, 2]],
  ['sparse', sparse, [2, 0, 4, 0]],
  ['uncoalesced sparse', uncoalesced, [10, 0, 8, 0]],
])('with %s tensors', (_kind, make, doubled) => {
  it('a worker is meant by its rank, its name and its record, in all three ways of calling', () =>
    withGroup(3, async () => {
      for (const rank of [0, 1, 2]) {
        for (const to of [rank, `w${rank}`, getWorkerInfo(rank)] as To[]) {
          expect(dense(await rpcSync(to, add, [make(), make()]))).toEqual(doubled);
          expect(dense(await rpcAsync(to, add, [make(), make()]))).toEqual(doubled);
          expect(dense(await remote(to, add, [make(), make()]).toHere())).toEqual(doubled);
        }
      }
      for (const to of [-1, 3, 1.5, NaN, '3', 'w9', '']) {
        const words =
          typeof to === 'number' && !Number.isInteger(to)
            ? 'Cannot get WorkerInfo from name'
            : 'could not find destination';
        expect((await failure(rpcSync(to, add, [make(), make()]))).message).toContain(words);
        expect((await failure(rpcAsync(to, add, [make(), make()]))).message).toContain(words);
        const use = (async () => remote(to, add, [make(), make()]).toHere())();
        expect((await failure(use)).message).toContain(words);
      }
    }));

  it('the only member of its group calls itself, in all three ways', () =>
    withGroup(1, async () => {
      expect(dense(await rpcSync('w0', add, [make(), make()]))).toEqual(doubled);
      expect(dense(await rpcAsync('w0', add, [make(), make()]))).toEqual(doubled);
      expect(dense(await remote('w0', add, [make(), make()]).toHere())).toEqual(doubled);
    }));

  it.each(['w1', 'w0'])('remote of a tensor operation on %s gives its result', (to) =>
    withGroup(2, async () => {
      const rref = remote(to, add, [make(), make()]);
      expect(dense(await rref.toHere())).toEqual(doubled);
      expect(rref.ownerName()).toBe(to);
    }),
  );

  it('ten of them at once give their results', () =>
    withGroup(2, async () => {
      const rrefs = Array.from({ length: 10 }, () => remote('w1', add, [make(), make()]));
      for (const rref of rrefs) expect(dense(await rref.toHere())).toEqual(doubled);
    }));
});

it('an object that cannot travel is held, called and refused to be fetched', () =>
  withGroup(2, async () => {
    const holder = remote('w1', Holder);
    expect(await holder.rpcSync().call(21)).toBe(42);
    expect(await failure(holder.toHere())).toBeInstanceOf(TypeError);
    expect(await holder.rpcSync().call(1)).toBe(2);
  }));

it('debugInfo of an agent has its own keys and those of its extensions, each once', () =>
  withGroup(2, async (agents) => {
    await remote('w1', resolver, [1]).toHere();
    const all = Object.keys(agent(agents, 0).debugInfo());
    const own = all.filter((key) => key.startsWith('agent.'));
    const rrefKeys = Object.keys(counters(agent(agents, 0)));
    expect(rrefKeys).toEqual(expect.arrayContaining(Object.keys(rrefDebugInfo())));
    expect(new Set(all).size).toBe(all.length);
    expect(own.filter((key) => rrefKeys.includes(key))).toEqual([]);
    expect([...own, ...rrefKeys].sort()).toEqual(all.sort());
    expect(own).toEqual(expect.arrayContaining(['agent.client_active_calls', 'agent.server_active_calls']));
  }));
