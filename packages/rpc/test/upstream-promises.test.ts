/** @file PyTorch's tests of futures: waiting for them, callbacks, and functions that answer with one (`async_execution`). */
import { errorMatching, shown } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, ones, rand, tensor, zeros, zerosLike, type Tensor } from '@backwire/tensor';
import { RemoteError, rpcAsync, RpcError, rpcFunction, rpcSync, waitAll } from '../src/index.ts';
import { encodeValue } from '@backwire/wire';
import { FrameKind } from '@backwire/wire/internal';
import { startCluster, until, type Cluster } from './cluster.ts';
import { behaves, impostor, writeMessage } from './impostor.ts';

const fail = rpcFunction('upstream-promises/fail', (text: string): number => {
  throw new RangeError(text);
});
const slow = rpcFunction(
  'upstream-promises/slow',
  (ms: number) => new Promise<string>((resolve) => setTimeout(resolve, ms, 'slow')),
);
const echo = rpcFunction('upstream-promises/echo', (x: unknown) => x);
const failAsync = rpcFunction('upstream-promises/fail-async', async (text: string): Promise<number> => {
  throw new RangeError(text);
});
const failBefore = rpcFunction('upstream-promises/fail-before', (text: string): Promise<number> => {
  throw new RangeError(text);
});
/** By the worker that calls: a call of `held` runs until its own is called. */
const release = new Map<number, () => void>();
const held = rpcFunction(
  'upstream-promises/held',
  (by: number) => new Promise<string>((resolve) => release.set(by, () => resolve('released'))),
);

const asyncAdd = rpcFunction('upstream-promises/async-add', (to: string, x: Tensor, y: Tensor | number) =>
  rpcAsync(to, add, [x, y]),
);
type Summing = readonly [to: string, x: Tensor, y: number, z: number];
/** A callback tells what it got to a promise that the function waits for. */
const viaCallback = rpcFunction('upstream-promises/via-callback', async (...[to, x, y, z]: Summing) => {
  let tell = (_: Tensor): void => undefined;
  const told = new Promise<Tensor>((resolve) => (tell = resolve));
  void rpcAsync(to, add, [x, y]).then((sum) => tell(sum.add(z)));
  return await told;
});
const resolved = rpcFunction(
  'upstream-promises/resolved',
  (...[to, x, y, z]: Summing) =>
    new Promise<Tensor>((resolve, reject) => {
      rpcAsync(to, add, [x, y]).then((sum) => resolve(sum.add(z)), reject);
    }),
);
/** The callback of a call makes another, whose callback tells the promise. */
const twice = rpcFunction(
  'upstream-promises/twice',
  (...[to, x, y, z]: Summing) =>
    new Promise<Tensor>((resolve, reject) => {
      rpcAsync(to, add, [x, y]).then((sum) => void rpcAsync(to, add, [sum, z]).then(resolve, reject), reject);
    }),
);
const chained = rpcFunction('upstream-promises/chained', (...[to, x, y, z]: Summing) =>
  rpcAsync(to, add, [x, y]).then((sum) => sum.add(z)),
);
const nested = rpcFunction('upstream-promises/nested', (...[to, x, y, z]: Summing) =>
  rpcAsync(to, asyncAdd, [to, x, y]).then((sum) => sum.add(z)),
);
/** As PyTorch's: one call, whose sum `count` callbacks in a row add to. */
const inSteps = rpcFunction('upstream-promises/in-steps', (to: string, x: Tensor, count: number, step: number) => {
  let sum = rpcAsync(to, add, [x, 0]);
  for (let i = 0; i < count; i++) sum = sum.then((before) => before.add(step));
  return sum;
});
const stepwise = rpcFunction('upstream-promises/stepwise', (to: string, x: Tensor, count: number, step: number) => {
  let sum = rpcAsync(to, add, [x, 0]);
  for (let i = 0; i < count; i++) sum = sum.then((before) => rpcAsync(to, add, [before, step]));
  return sum;
});
/**
 * As PyTorch's: the callback of each call adds its sum, and that of the last resolves a promise made by hand. The first sum has the shape of
 * `x`, those of the number 0 and `step` have no dimensions.
 */
const fanOut = rpcFunction(
  'upstream-promises/fan-out',
  (to: string, x: Tensor, count: number, step: number) =>
    new Promise<Tensor>((resolve, reject) => {
      const nought = tensor(0, { dtype: 'int64' });
      const total = zerosLike(x);
      let come = 0;
      const addUp = (sum: Tensor, i: number): void => {
        expect([sum.shape, sum.dtype]).toEqual(i === 0 ? [x.shape, x.dtype] : [[], 'int64']);
        total.add_(sum);
        if (++come === count) resolve(total);
      };
      const calls = many(count, (i) => rpcAsync(to, add, [i === 0 ? x : nought, step]));
      for (const [i, call] of calls.entries()) call.then((sum) => addUp(sum, i)).catch(reject);
    }),
);

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(4);
});
// In good order: every worker waits for the others, and none has a call left.
afterAll(async () => {
  await Promise.all(cluster.agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
});
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
/** Runs `fn` on all four workers at once: `n` is the rank and 1, then the next worker and the one after it. */
async function onAll(fn: (at: { n: number; next: string; third: string }) => Promise<void>): Promise<void> {
  const name = (rank: number): string => `w${rank % 4}`;
  await Promise.all(
    many(4, (rank) => cluster.at(rank).run(() => fn({ n: rank + 1, next: name(rank + 1), third: name(rank + 2) }))),
  );
}
/** Whether a promise has settled, and how, without waiting for it. */
const stateOf = (promise: Promise<unknown>): Promise<string> =>
  Promise.race([promise, Promise.resolve('pending')]).then(
    (value) => (value === 'pending' ? 'pending' : 'done'),
    () => 'failed',
  );
const TEN_AND_FIVE = errorMatching(RemoteError, {
  code: 'remote-error',
  remoteName: 'ShapeError',
  message: 'ShapeError: add(): The size of tensor a (10) must match the size of tensor b (5)',
});
const modes = [
  ['rpcSync', rpcSync],
  ['rpcAsync', rpcAsync],
] as const;

describe('the promise of a call', () => {
  it('fails each time it is awaited, alone and among twenty', () =>
    onAll(async ({ next }) => {
      const calls = many(20, (i) => rpcAsync(next, fail, [`Expected error ${i}`]));
      // They fail in the order of the calls.
      await expect(Promise.all(calls)).rejects.toThrow(new RangeError('Expected error 0'));
      for (const _ of ['once', 'twice'])
        for (const [i, call] of calls.entries())
          await expect(call).rejects.toThrow(new RangeError(`Expected error ${i}`));
    }));

  it('is done after success', () =>
    onAll(async ({ next }) => {
      const call = rpcAsync(next, add, [zeros([2]), 1]);
      expect(await stateOf(call)).toBe('pending');
      expect(shown(await call)).toEqual(shown(zeros([2]).add(1)));
      expect(await stateOf(call)).toBe('done');
    }));

  it('is done after a failure', () =>
    onAll(async ({ next }) => {
      const call = rpcAsync(next, fail, ['Expected error']);
      expect(await stateOf(call)).toBe('pending');
      await expect(call).rejects.toThrow(new RangeError('Expected error'));
      expect(await stateOf(call)).toBe('failed');
    }));

  it('settles once: what its caller or the function does after its answer or its deadline changes nothing', () =>
    onAll(async ({ next }) => {
      const settled: string[] = [];
      const controller = new AbortController();
      const answered = rpcAsync(next, add, [zeros([2, 2]), 1], { signal: controller.signal });
      answered.then(
        () => settled.push('value'),
        () => settled.push('cancelled'),
      );
      expect(shown(await answered)).toEqual(shown(zeros([2, 2]).add(1)));
      controller.abort();
      await rpcSync(next, echo, [1]);
      expect(shown(await answered)).toEqual(shown(zeros([2, 2]).add(1)));
      expect(await stateOf(answered)).toBe('done');
      // Its user has a promise of the language, which has no way to settle it.
      expect([Object.getPrototypeOf(answered), Object.getOwnPropertyNames(answered)]).toEqual([Promise.prototype, []]);

      const call = rpcAsync(next, slow, [60], { timeoutMs: 10 });
      call.then(
        () => settled.push('answer'),
        () => settled.push('deadline'),
      );
      const message = 'RPC ran for more than set timeout (10 ms)';
      await expect(call).rejects.toThrow(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
      await rpcSync(next, slow, [80]);
      expect(settled).toEqual(['value', 'deadline']);
      expect(await stateOf(call)).toBe('failed');
    }));

  it('settles once: a second answer changes nothing, nor does one that comes after the deadline', async () => {
    const { agent, talks } = await impostor(behaves);
    const settled: unknown[] = [];
    let seq = 0;
    const answer = (callId: number, value: string): void =>
      talks[0]!.write((writer) =>
        writeMessage(writer, encodeValue(value).bytes, { kind: FrameKind.RESULT, seq: ++seq, callId }),
      );
    const called = async (timeoutMs: number): Promise<{ id: number; promise: Promise<unknown> }> => {
      const before = talks[0]?.call;
      const promise = agent.run(() => rpcAsync('w1', echo, ['x'], { timeoutMs }));
      promise.then(
        (value) => settled.push(value),
        ({ code }: RpcError) => settled.push(code),
      );
      await until(() => talks[0] !== undefined && talks[0].call !== before && talks[0].call !== 0, 'the call came');
      return { id: talks[0]!.call, promise };
    };
    const first = await called(20_000);
    answer(first.id, 'an answer');
    answer(first.id, 'another');
    expect(await first.promise).toBe('an answer');
    const late = await called(300);
    const message = 'RPC ran for more than set timeout (300 ms)';
    await expect(late.promise).rejects.toThrow(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
    const third = await called(20_000);
    answer(first.id, 'a third');
    answer(late.id, 'too late');
    answer(third.id, 'to the last call');
    // What came before this on the link was seen before it.
    expect(await third.promise).toBe('to the last call');
    expect(await first.promise).toBe('an answer');
    expect(await stateOf(late.promise)).toBe('failed');
    expect(settled).toEqual(['an answer', 'deadline-exceeded', 'to the last call']);
  });
});

describe('promises together', () => {
  it.each([
    ['a function', (to: string) => rpcAsync(to, fail, ['Expected error']), new RangeError('Expected error')],
    ['a tensor operation', (to: string) => rpcAsync(to, add, [rand([10]), rand([5])]), TEN_AND_FIVE],
  ] as const)('do not wait for the slowest when %s failed', (_, failing, error) =>
    onAll(async ({ n, next }) => {
      for (const wait of [
        (calls: () => unknown[]) => Promise.all(calls()),
        (calls: () => unknown[]) => waitAll(calls),
      ]) {
        let first!: Promise<string>;
        const all = wait(() => [(first = rpcAsync(next, held, [n])), failing(next), failing(next)]);
        await expect(all).rejects.toThrow(error);
        expect(await stateOf(first)).toBe('pending');
        release.get(n)!();
        expect(await first).toBe('released');
      }
    }),
  );

  it('fail when each of ten fails', () =>
    onAll(async ({ next }) => {
      const error = new RangeError('Expected error 0');
      const calls = (): Promise<number>[] => many(10, (i) => rpcAsync(next, fail, [`Expected error ${i}`]));
      await expect(Promise.all(calls())).rejects.toThrow(error);
      await expect(waitAll(calls)).rejects.toThrow(error);
    }));

  it('fail when the last of eleven fails', () =>
    onAll(async ({ next }) => {
      const error = new RangeError('Expected error');
      const sums: Promise<Tensor>[] = [];
      const calls = (): Promise<unknown>[] => {
        const ten = many(10, () => rpcAsync(next, add, [ones([2]), 1]));
        sums.push(...ten);
        return [...ten, rpcAsync(next, fail, ['Expected error'])];
      };
      await expect(Promise.all(calls())).rejects.toThrow(error);
      await expect(waitAll(calls)).rejects.toThrow(error);
      expect(sums).toHaveLength(20);
      for (const sum of sums) expect(shown(await sum)).toEqual(shown(ones([2]).add(1)));
    }));
});

describe('a callback', () => {
  it('sees the value and may tell it on; the value stays what it was', () =>
    onAll(async ({ n, next }) => {
      const two = shown(ones([n, n]).mul(2));
      let tell = (_: Tensor): void => undefined;
      const told = new Promise<Tensor>((resolve) => (tell = resolve));
      const call = rpcAsync(next, add, [ones([n, n]), ones([n, n])]);
      void call.then((sum) => tell(sum.clone().add(1)));
      expect(shown(await call)).toEqual(two);
      expect(shown(await told)).toEqual(shown(ones([n, n]).mul(2).add(1)));
      expect(shown(await call)).toEqual(two);
    }));

  it('that is none passes value and failure on', () =>
    onAll(async ({ next }) => {
      const five = rpcAsync(next, echo, [5]);
      for (const none of [null, undefined]) {
        expect(await five.then(none)).toBe(5);
        await expect(rpcAsync(next, fail, ['Expected error']).then(none, none)).rejects.toThrow(
          new RangeError('Expected error'),
        );
      }
    }));

  it('that takes its value for another type fails what it makes, not the call', () =>
    onAll(async ({ next }) => {
      const call = rpcAsync(next, add, [ones([2, 2]), 1]);
      await expect(call.then((x) => (x as unknown as string).toUpperCase())).rejects.toThrow(
        errorMatching(TypeError, { message: 'toUpperCase is not a function' }),
      );
      expect(shown(await call)).toEqual(shown(ones([2, 2]).add(1)));
    }));

  it('may be one of ten, each with a result of its own', () =>
    onAll(async ({ n, next }) => {
      const call = rpcAsync(next, add, [ones([n, n]), ones([n, n])]);
      const sums = many(10, (i) => call.then((sum) => sum.add(i)));
      expect(shown(await call)).toEqual(shown(ones([n, n]).mul(2)));
      for (const [i, sum] of sums.entries()) expect(shown(await sum)).toEqual(shown(ones([n, n]).add(1 + i)));
      expect(shown(await call)).toEqual(shown(ones([n, n]).mul(2)));
    }));

  it('may be one of twenty in a row', () =>
    onAll(async ({ n, next }) => {
      let sum = rpcAsync(next, add, [ones([n, n]), 1]);
      for (let i = 0; i < 20; i++) sum = sum.then((before) => before.add(1));
      expect(shown(await sum)).toEqual(shown(ones([n, n]).add(21)));
    }));

  it('may call on, with a callback of its own', () =>
    onAll(async ({ next }) => {
      const sum = rpcAsync(next, add, [ones([2, 2]), 1]).then((one) =>
        rpcAsync(next, add, [one, 1]).then((two) => two.add(1)),
      );
      expect(shown(await sum)).toEqual(shown(ones([2, 2]).add(3)));
    }));

  it('may see a failure, and throw another', () =>
    onAll(async ({ next }) => {
      const seen: unknown[] = [];
      const other = rpcAsync(next, fail, ['Expected error']).catch((error: unknown) => {
        seen.push(error);
        throw new SyntaxError('Another expected error');
      });
      await expect(other).rejects.toThrow(new SyntaxError('Another expected error'));
      expect(seen).toEqual([new RangeError('Expected error')]);
    }));

  it('may run when the call is done, whatever came of it, which it leaves alone', () =>
    onAll(async ({ n, next }) => {
      const seen: unknown[] = [];
      const call = rpcAsync(next, add, [ones([n, n]), ones([n, n])]);
      let ran = 0;
      const after = call.finally(async () => {
        ran++;
        seen.push(shown(await call));
        return 'of no use';
      });
      // One that was added later runs later.
      const later = call.then(() => ran);
      const two = shown(ones([n, n]).mul(2));
      expect(shown(await call)).toEqual(two);
      expect(await later).toBe(1);
      expect(shown(await after)).toEqual(two);
      expect([ran, seen]).toEqual([1, [two]]);
      expect(shown(await call)).toEqual(two);

      const failing = rpcAsync(next, fail, ['Expected error']);
      const settled = failing.finally(async () => void seen.push(await stateOf(failing)));
      await expect(settled).rejects.toThrow(new RangeError('Expected error'));
      expect(seen).toEqual([two, 'failed']);
      await expect(failing).rejects.toThrow(new RangeError('Expected error'));
    }));
});

describe.each(modes)('an asynchronous function called by %s', (_mode, call) => {
  it.each([
    ['a call elsewhere gives', asyncAdd, 1],
    ['a callback tells it', viaCallback, 3],
    ['a promise made by hand is resolved with', resolved, 3],
    ['the callback of a callback gives', twice, 3],
    ['a chain gives at its end', chained, 3],
    ['another asynchronous function gives, and what is made of it', nested, 3],
  ] as const)('answers with what %s', (_, fn, more) =>
    onAll(async ({ next, third }) => {
      const sum = await call(next, fn as typeof chained, [third, ones([2, 2]), 1, 2]);
      expect(shown(sum)).toEqual(shown(ones([2, 2]).add(more)));
    }),
  );

  it.each([
    ['what it throws', failBefore],
    ['what it throws as its promise', failAsync],
  ])('brings %s before its first await', (_, fn) =>
    onAll(({ next }) => expect(call(next, fn, ['Expected error'])).rejects.toThrow(new RangeError('Expected error'))),
  );

  it.each([
    ['twenty steps that depend on each other', inSteps],
    ['twenty calls that depend on each other', stepwise],
    ['twenty calls that it makes at once', fanOut],
  ])('waits for %s', (_, fn) =>
    onAll(async ({ next, third }) => {
      expect(shown(await call(next, fn, [third, ones([2, 2]), 20, 3]))).toEqual(shown(ones([2, 2]).add(60)));
    }),
  );
});
