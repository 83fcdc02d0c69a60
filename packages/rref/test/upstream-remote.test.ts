/** @file PyTorch's tests of `remote()`: asynchronous functions, sparse tensors, every kind of destination. */
import { errorMatching, shown } from '@backwire/testing';
import { getWorkerInfo, RemoteError, rpcAsync, rpcClass, RpcError, rpcFunction, rpcInfo, rpcSync } from '@backwire/rpc';
import type { AnyFn, To } from '@backwire/rpc';
import {
  add,
  ones,
  openHostDevice,
  rpcName,
  tensor,
  zeros,
  zerosLike,
  type Named,
  type Tensor,
} from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { onAll, withGroup } from './group.ts';
import { sparse, whole } from './tensors.ts';
import { remote } from '../src/index.ts';

openHostDevice('host:0');
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

const sumOf = rpcFunction('upstream-remote/sum-of', (x: Tensor, y: Tensor) => x.add(y));
const sumOfThree = rpcFunction('upstream-remote/sum-of-three', ({ a, b, c }: { a: Tensor; b: Tensor; c: Tensor }) =>
  a.add(b).add(c),
);
const raise = rpcFunction('upstream-remote/raise', (): Promise<number> => {
  throw new RangeError('before anything was awaited');
});
const resolver = rpcFunction('upstream-remote/resolver', (to: string, x: Tensor, y: Tensor | number, z: number) => {
  return new Promise<Tensor>((resolve, reject) => {
    rpcAsync(to, add, [x, y]).then((sum) => resolve(sum.add(z)), reject);
  });
});
const chained = rpcFunction('upstream-remote/chained', (to: string, x: Tensor, y: Tensor | number, z: number) =>
  rpcAsync(to, add, [x, y]).then((sum) => sum.add(z)),
);
const asyncAdd = rpcFunction('upstream-remote/async-add', (to: string, x: Tensor, y: Tensor | number) =>
  rpcAsync(to, add, [x, y]),
);
const nested = rpcFunction('upstream-remote/nested', (to: string, x: Tensor, y: Tensor | number, z: number) =>
  rpcAsync(to, asyncAdd, [to, x, y]).then((sum) => sum.add(z)),
);
/** As PyTorch's: one call, whose sum `count` callbacks in a row add to. */
const inSteps = rpcFunction('upstream-remote/in-steps', (to: string, x: Tensor, count: number, by: number) => {
  let sum = rpcAsync(to, add, [x, 0]);
  for (let i = 0; i < count; i++) sum = sum.then((value) => value.add(by));
  return sum;
});
const stepwise = rpcFunction('upstream-remote/stepwise', (to: string, x: Tensor, count: number, by: number) => {
  let sum = Promise.resolve(x);
  for (let i = 0; i < count; i++) sum = sum.then((value) => rpcAsync(to, add, [value, by]));
  return sum;
});
/**
 * As PyTorch's: the callback of each call adds its sum, and that of the last resolves a promise made by hand. The first sum has the shape of
 * `x`, those of the number 0 and `by` have no dimensions.
 */
const fanOut = rpcFunction(
  'upstream-remote/fan-out',
  (to: string, x: Tensor, count: number, by: number) =>
    new Promise<Tensor>((resolve, reject) => {
      const nought = tensor(0, { dtype: 'int64' });
      const total = zerosLike(x);
      let come = 0;
      const addUp = (sum: Tensor, i: number): void => {
        expect([sum.shape, sum.dtype]).toEqual(i === 0 ? [x.shape, x.dtype] : [[], 'int64']);
        total.add_(sum);
        if (++come === count) resolve(total);
      };
      const calls = Array.from({ length: count }, (_, i) => rpcAsync(to, add, [i === 0 ? x : nought, by]));
      for (const [i, call] of calls.entries()) call.then((sum) => addUp(sum, i)).catch(reject);
    }),
);
const promised = rpcFunction('upstream-remote/promised', () => Promise.resolve(1));
const promiseInside = rpcFunction('upstream-remote/promise-inside', () => ({ later: Promise.resolve(1) }));
const generator = rpcFunction('upstream-remote/generator', function* () {
  yield 1;
});

/** Holds a tensor, which travels, next to what cannot. */
class Wrapper {
  static readonly [rpcName] = 'upstream-remote/Wrapper';
  private readonly held: Tensor;
  private readonly plus = (x: number): Tensor => this.held.add_(x);
  readonly lock = new Promise(() => undefined);
  constructor(held: Tensor) {
    this.held = held;
  }
  increase(by: number): void {
    this.plus(by);
  }
  sum(): Tensor {
    return this.held.sum();
  }
}
rpcClass(Wrapper, { methods: ['increase', 'sum'] });

describe('remote of an asynchronous function', () => {
  it('brings what it throws before its first await to toHere', () =>
    onAll(4, async (at) => {
      await expect(remote(at('w1'), raise).toHere()).rejects.toThrow(new RangeError('before anything was awaited'));
    }));

  it.each([
    ['what a promise made by hand is resolved with', resolver],
    ['the end of a chain', chained],
    ['what another asynchronous function gave, and what came of it', nested],
  ])('refers to %s', (_, fn) =>
    onAll(4, async (at) => {
      const n = getWorkerInfo().id + 1;
      const sum = await remote(at('w1'), fn, [at('w2'), ones([2, 2]), n, 2]).toHere();
      expect(shown(sum)).toEqual(shown(ones([2, 2]).add(n + 2)));
    }),
  );

  it.each([
    ['steps that depend on one another', inSteps],
    ['calls that depend on one another', stepwise],
    ['calls at once', fanOut],
  ])('waits for twenty %s', (_, fn) =>
    onAll(4, async (at) => {
      const n = getWorkerInfo().id + 1;
      const sum = await remote(at('w1'), fn, [at('w2'), ones([2, 2]), 20, n]).toHere();
      expect(shown(sum)).toEqual(shown(ones([2, 2]).add(20 * n)));
    }),
  );

  it('of the wrong kind says so when its value is asked for', () =>
    onAll(4, async (at) => {
      const message = /^a generator is called with rpcStream\(\)/;
      const untyped: AnyFn & Named = generator;
      await expect(remote(at('w1'), untyped).toHere()).rejects.toThrow(
        errorMatching(RpcError, { code: 'failed-precondition', executed: 'yes', peer: { name: at('w1') }, message }),
      );
    }));

  it('keeps a promise inside of its value there: fetching it is refused', () =>
    onAll(4, async (at) => {
      const message = 'cannot send an instance of class Promise at $.later: await it, and send what it resolves with';
      const error: unknown = await remote(at('w1'), promiseInside)
        .toHere()
        .catch((e: unknown) => e);
      expect(error).toEqual(errorMatching(TypeError, { message }));
      const from = { code: 'remote-error', peer: { name: at('w1') }, message };
      expect(rpcInfo(error)).toEqual(errorMatching(RemoteError, from));
      expect(await remote(at('w1'), promised).toHere()).toBe(1);
    }));

  it('says cancelled in words when its signal has aborted', () =>
    onAll(4, async (at) => {
      const reason = new Error('not any more');
      const made = remote(at('w1'), sumOf, [ones([1]), ones([1])], { signal: AbortSignal.abort(reason) });
      const message = 'RRef creation via rpc.remote() was cancelled';
      await expect(made.toHere()).rejects.toThrow(errorMatching(RpcError, { code: 'cancelled', message }));
      await pause();
    }));
});

const FOURS = [[4, 4], [4, 4]]; // prettier-ignore
const EIGHT_TIMES = [[0n, 0n, 24n], [32n, 0n, 40n]]; // prettier-ignore

describe.each([
  ['dense', (n: number) => ones([n, n]), FOURS],
  ['sparse', (n: number) => sparse().mul(n), EIGHT_TIMES],
  ['coalesced sparse', (n: number) => sparse().mul(n).coalesce(), EIGHT_TIMES],
] as const)('with %s tensors', (kind, make, values) => {
  const [x, y] = [make(2), make(2).mul(3)];
  const sum = whole(x.add(y));
  /** As many sizes, or factors of a sparse one, as PyTorch's tests have on a worker: of the first the numbers 1 to 46. */
  const ten = (): number[] => Array.from({ length: 10 }, (_, i) => getWorkerInfo().id + 1 + (i * (i + 1)) / 2);
  /** What is added to the first, by which PyTorch's tests tell dense tensors, to which it is a number, from sparse ones. */
  const operands: readonly (Tensor | number)[] = kind === 'dense' ? [y, 1] : [y];

  it('a worker is meant by its rank, its name and its record, in all three ways of calling', () =>
    onAll(4, async () => {
      for (const rank of [0, 1, 2, 3]) {
        for (const to of [rank, `w${rank}`, getWorkerInfo(rank)] as To[]) {
          for (const operand of operands) {
            const expected = whole(x.add(operand));
            expect(whole(await rpcSync(to, add, [x, operand]))).toEqual(expected);
            expect(whole(await rpcAsync(to, add, [x, operand]))).toEqual(expected);
            expect(whole(await remote(to, add, [x, operand]).toHere())).toEqual(expected);
          }
        }
      }
      // Halves on both sides of every rank, as in PyTorch's test, and what is no number at all.
      for (const to of [-1, 4, 5, -0.5, 0.5, 1.5, 2.5, 3.5, NaN, '3', 'w9', '']) {
        const [code, message] =
          typeof to === 'number' && !Number.isInteger(to)
            ? ['invalid-argument', `Cannot get WorkerInfo from name ${to}`]
            : ['not-found', `could not find destination ${typeof to === 'number' ? 'id' : 'name'} ${to}`];
        const operand = operands.at(-1)!;
        const remotely = async (): Promise<Tensor> => remote(to, add, [x, operand]).toHere();
        for (const use of [rpcSync(to, add, [x, operand]), rpcAsync(to, add, [x, operand]), remotely()]) {
          await expect(use).rejects.toThrow(errorMatching(RpcError, { code, message }));
        }
      }
    }));

  it('the only member of its group calls itself, in all three ways', () =>
    withGroup(1, async () => {
      expect(getWorkerInfo()).toEqual({ id: 0, name: 'w0' });
      expect(x.add(y).toDense().toArray()).toEqual(values);
      for (const fn of [sumOf, add]) {
        expect(whole(await rpcSync('w0', fn, [x, y]))).toEqual(sum);
        expect(whole(await rpcAsync('w0', fn, [x, y]))).toEqual(sum);
        expect(whole(await remote('w0', fn, [x, y]).toHere())).toEqual(sum);
      }
    }));

  it.each(['w1', 'w0'])('remote of a tensor operation on %s gives its result, on its owner as the local value', (to) =>
    onAll(4, async (at) => {
      const rref = remote(at(to), add, [x, y]);
      if (to === 'w0') expect(whole(await rref.localValue())).toEqual(sum);
      const here = await rref.toHere();
      expect(whole(here)).toEqual(sum);
      expect(here.toDense().toArray()).toEqual(values);
      expect(rref.ownerName()).toBe(at(to));
    }),
  );

  it('ten of them at once give their results, each its own', () =>
    onAll(4, async (at) => {
      const all = ten().map((n): [Tensor, Tensor] => [make(n), make(n).mul(2)]);
      const rrefs = all.map((args) => remote(at('w1'), add, args));
      for (const [i, args] of all.entries()) expect(whole(await rrefs[i]!.toHere())).toEqual(whole(add(...args)));
    }));

  it('so do ten remote calls of a function, which takes its tensors by name', () =>
    onAll(4, async (at) => {
      const all = ten().map((n) => ({ a: make(n), b: make(n).mul(2), c: make(n).mul(4) }));
      const rrefs = all.map((named) => remote(at('w1'), sumOfThree, [named]));
      for (const [i, named] of all.entries()) expect(whole(await rrefs[i]!.toHere())).toEqual(whole(sumOfThree(named)));
    }));
});

it('an object that cannot travel is held, called and refused to be fetched', () =>
  onAll(
    4,
    async (at) => {
      const rref = remote(at('w1'), Wrapper, [zeros([42]).to('host:0')]);
      await rref.rpcSync().increase(1);
      const sum = await rref.rpcSync().sum();
      expect([sum.device, shown(sum.to('cpu'))]).toEqual(['host:0', shown(ones([42]).sum())]);
      const message = 'cannot send an instance of class Wrapper: register it with registerValueType';
      await expect(rref.toHere()).rejects.toThrow(errorMatching(TypeError, { message }));
      expect((await rref.rpcSync().sum()).item()).toBe(42);
    },
    // To the next one only: what it answers comes back by this worker's map, since it has none of its own.
    (rank) => ({ deviceMaps: { [`w${(rank + 1) % 4}`]: { 'host:0': 'host:0' } } }),
  ));
