/** @file Calls from the side of their users: destinations, arguments, errors, timeouts, promises and asynchronous handlers. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, mul, nonzero, ones, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import {
  callContext,
  getRpcTimeoutMs,
  getWorkerInfo,
  registerErrorType,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcSync,
  setRpcTimeoutMs,
  WorkerInfo,
  type To,
} from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

const echo = rpcFunction('upstream-calls/echo', (x: unknown) => x);
const total = rpcFunction(
  'upstream-calls/total',
  (first: number, { second, third = 0 }: { second: number; third?: number }) => first + second + third,
);
const nothing = rpcFunction('upstream-calls/nothing', () => undefined);
const whoAmI = rpcFunction('upstream-calls/who', () => getWorkerInfo().id);
const longest = rpcFunction('upstream-calls/max', Math.max);
const sumOf = rpcFunction('upstream-calls/sum', (a: Tensor, b: Tensor) => a.add(b));
const plus = rpcFunction('upstream-calls/plus', (x: number, y: number) => x + y);
const plusOn = rpcFunction('upstream-calls/plus-on', (to: To, x: number, y: number) => rpcAsync(to, plus, [x, y]));
const askBack = rpcFunction('upstream-calls/ask-back', (x: Tensor) => rpcSync(callContext().caller, sumOf, [x, x]));
const heavy = rpcFunction('upstream-calls/heavy', (x: Tensor) => {
  let y = x;
  for (let i = 0; i < 20; i++) y = y.mul(x);
  return y;
});
const doubled = rpcFunction('upstream-calls/doubled', (x: Tensor, times: number) => {
  let y = x;
  for (let i = 0; i < times; i++) y = y.add(y);
  return y;
});
const sleep = rpcFunction('upstream-calls/sleep', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return ms;
});
const fail = rpcFunction('upstream-calls/fail', (text: string): number => {
  throw new RangeError(text);
});
const failAsync = rpcFunction('upstream-calls/fail-async', async (text: string): Promise<number> => {
  throw new RangeError(text);
});
class Unbuildable extends Error {
  constructor(message: string, built?: boolean) {
    super(message);
    if (built !== true) throw new Error('it cannot be built again');
  }
}
const failUnbuildable = rpcFunction('upstream-calls/fail-unbuildable', (): void => {
  throw new Unbuildable('the first text', true);
});
class Boxed {
  readonly parts: Tensor[];
  constructor(parts: Tensor[]) {
    this.parts = parts;
  }
}
registerValueType({
  name: 'upstream-calls/Boxed',
  match: Boxed,
  encode: (box) => box.parts,
  decode: (parts) => new Boxed(parts as Tensor[]),
});

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(3);
});
afterAll(() => cluster.close());
const at = <T>(rank: number, fn: () => T): T => cluster.at(rank).run(fn);
const from0 = <T>(fn: () => T): T => at(0, fn);
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
const modes = [
  ['rpcSync', rpcSync],
  ['rpcAsync', rpcAsync],
] as const;
const sparse = (): Tensor => sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
const repeated = (): Tensor => sparseCooTensor(tensor([[2, 2, 0]], { dtype: 'int64' }), tensor([1, 3, 5]), [4]);
const dense = (x: Tensor): unknown => (x.layout === 'sparse_coo' ? x.toDense() : x).toArray();

describe.each(modes)('%s', (_, call) => {
  it('reaches the worker itself', () =>
    from0(async () => {
      expect((await call(getWorkerInfo(), add, [ones([2, 2]), 1])).toArray()).toEqual([
        [2, 2],
        [2, 2],
      ]);
    }));

  it('reaches a worker by rank, and refuses ranks that are none', () =>
    from0(async () => {
      for (const rank of [0, 1, 2]) expect(await call(rank, whoAmI)).toBe(rank);
      for (const bad of [-1, 3]) await expect(call(bad, whoAmI)).rejects.toThrow('could not find destination');
      await expect(call(1.5, whoAmI)).rejects.toThrow('Cannot get WorkerInfo from name 1.5');
    }));

  it('reaches a worker by name and by its record', () =>
    from0(async () => {
      expect(dense(await call('w1', add, [ones([2]), ones([2])]))).toEqual([2, 2]);
      expect(dense(await call(getWorkerInfo('w1'), add, [ones([2]), tensor([1, 2])]))).toEqual([2, 3]);
    }));

  it('overrides the time that calls have by default', () =>
    from0(async () => {
      setRpcTimeoutMs(30);
      try {
        await expect(call('w1', sleep, [2_000])).rejects.toThrow('RPC ran for more than set timeout (30 ms)');
        await expect(call('w1', sleep, [2_000], { timeoutMs: 40 })).rejects.toThrow('set timeout (40 ms)');
        expect(await call('w1', sleep, [100], { timeoutMs: 20_000 })).toBe(100);
        expect(await call('w1', sleep, [100], { timeoutMs: 0 })).toBe(100);
      } finally {
        setRpcTimeoutMs(60_000);
      }
    }));

  it('adds sparse tensors, coalesced or not, on workers by rank', () =>
    from0(async () => {
      for (const rank of [0, 1]) {
        for (const [make, sum] of [
          [sparse, [2, 0, 4, 0]],
          [repeated, [10, 0, 8, 0]],
          [() => repeated().coalesce(), [10, 0, 8, 0]],
        ] as const) {
          const back = await call(rank, add, [make(), make()]);
          expect(back.layout).toBe('sparse_coo');
          expect(dense(back)).toEqual(sum);
        }
      }
    }));

  it('brings what an asynchronous handler throws before its first await', () =>
    from0(async () => {
      await expect(call('w1', failAsync, ['at once'])).rejects.toThrow(new RangeError('at once'));
    }));

  it('waits for twenty steps of a handler that depend on each other', () =>
    from0(async () => {
      expect(await call('w1', stepwise, ['w2', 1, 20])).toBe(21);
    }));

  it('waits for twenty calls that a handler makes at once', () =>
    from0(async () => {
      expect(await call('w1', fanOut, ['w2', 1, 20])).toEqual(many(20, (i) => 1 + i));
    }));
});

const stepwise = rpcFunction('upstream-calls/stepwise', (to: string, x: number, steps: number) => {
  let value = Promise.resolve(x);
  for (let i = 0; i < steps; i++) value = value.then((sum) => rpcAsync(to, plus, [sum, 1]));
  return value;
});
const fanOut = rpcFunction('upstream-calls/fan-out', (to: string, x: number, width: number) =>
  Promise.all(many(width, (i) => rpcAsync(to, plus, [x, i]))),
);

describe('functions', () => {
  it('of tensors take scalars', () =>
    from0(async () => {
      expect(dense(await rpcSync('w1', add, [tensor([1, 2]), 5]))).toEqual([6, 7]);
      expect(dense(await rpcAsync('w1', mul, [tensor([1, 2]), tensor([3, 4])]))).toEqual([3, 8]);
    }));

  it('of tensors may give a shape that depends on the values', () =>
    from0(async () => {
      expect((await rpcSync('w1', nonzero, [tensor([0, 5, 0, 7])])).shape).toEqual([2, 1]);
      expect((await rpcSync('w1', nonzero, [ones([2, 2])])).shape).toEqual([4, 2]);
    }));

  it('of the language, with options, and without a result', () =>
    from0(async () => {
      expect(await rpcSync('w1', longest, [3, 9, 4])).toBe(9);
      expect(await rpcSync('w1', total, [1, { second: 2, third: 3 }])).toBe(6);
      expect(await rpcSync('w1', nothing)).toBeUndefined();
    }));

  it('are called twenty times in a row', () =>
    from0(async () => {
      for (let i = 0; i < 20; i++) expect(dense(await rpcSync('w1', add, [tensor([i]), ones([1])]))).toEqual([i + 1]);
      for (let i = 0; i < 20; i++) expect(dense(await rpcSync('w1', add, [sparse(), sparse()]))).toEqual([2, 0, 4, 0]);
    }));

  it('are called two at once', () =>
    from0(async () => {
      const [first, second] = [rpcAsync('w1', plus, [1, 2]), rpcAsync('w2', longest, [1, 5])];
      expect([await second, await first]).toEqual([5, 3]);
    }));

  it('hear each from the worker before it', async () => {
    const got = await Promise.all(many(3, (rank) => at(rank, () => rpcSync((rank + 1) % 3, callerOf, [rank]))));
    expect(got).toEqual([
      [0, 'w0', 1],
      [1, 'w1', 2],
      [2, 'w2', 0],
    ]);
  });

  it('call their caller back before they answer', () =>
    from0(async () => {
      expect(dense(await rpcSync('w1', askBack, [tensor([1, 2])]))).toEqual([2, 4]);
      expect(dense(await rpcSync('w1', askBack, [sparse()]))).toEqual([2, 0, 4, 0]);
    }));

  it('are called a thousand times at once', () =>
    from0(async () => {
      const calls = many(1_000, (i) => rpcAsync('w1', plus, [i, 1]));
      expect(await Promise.all(calls)).toEqual(many(1_000, (i) => i + 1));
    }));

  it('work hard in twenty calls at once', () =>
    from0(async () => {
      const results = await Promise.all(many(20, () => rpcAsync('w1', heavy, [ones([50, 50])])));
      for (const result of results) expect(result.sum().item()).toBe(2_500);
    }));

  it('work hard with sparse tensors in twenty calls at once', () =>
    from0(async () => {
      const results = await Promise.all(many(20, () => rpcAsync('w1', doubled, [sparse(), 14])));
      for (const result of results) expect(dense(result)).toEqual([2 ** 14, 0, 2 ** 15, 0]);
    }));
});
const callerOf = rpcFunction('upstream-calls/caller-of', (x: number) => [
  x,
  callContext().caller.name,
  getWorkerInfo().id,
]);

describe('arguments and results', () => {
  it('are tensors of growing sizes in a hundred calls at once', () =>
    from0(async () => {
      expect(dense(await rpcSync('w1', sumOf, [ones([2]), tensor([1, 2])]))).toEqual([2, 3]);
      const sums = await Promise.all(
        many(100, (i) => rpcAsync('w1', sumOf, [ones([i + 1, i + 1]), ones([i + 1, i + 1])])),
      );
      expect(sums.map((sum) => sum.sum().item())).toEqual(many(100, (i) => 2 * (i + 1) ** 2));
    }));

  it.each([
    ['dense', () => tensor([1, 0, 2, 0])],
    ['sparse', sparse],
  ])('hold %s tensors in lists, maps, records and objects of registered classes', (_, make) =>
    from0(async () => {
      const value = { list: [make(), make()], map: new Map([['key', make()]]), box: new Boxed([make(), make()]) };
      const back = (await rpcSync('w1', echo, [value])) as typeof value;
      expect(back.box).toBeInstanceOf(Boxed);
      for (const x of [...back.list, back.map.get('key'), ...back.box.parts])
        expect(dense(x as Tensor)).toEqual([1, 0, 2, 0]);
    }),
  );

  it('keep the values and the strides of a view', () =>
    from0(async () => {
      const view = tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]).transpose(0, 1);
      const back = (await rpcSync('w1', echo, [view])) as Tensor;
      expect(back.toArray()).toEqual(view.toArray());
      expect([back.strides, view.strides]).toEqual([
        [1, 3],
        [1, 3],
      ]);
    }));

  it('may be the record of a worker', () =>
    from0(async () => {
      const back = await rpcSync('w1', echo, [getWorkerInfo()]);
      expect(back).toBeInstanceOf(WorkerInfo);
      expect(back).toEqual(getWorkerInfo());
    }));

  it('are never promises', () =>
    from0(async () => {
      await expect(rpcSync('w1', echo, [Promise.resolve(1)])).rejects.toThrow(TypeError);
      await expect(rpcSync('w1', echo, [{ inside: [rpcAsync('w1', plus, [1, 2])] }])).rejects.toThrow(TypeError);
    }));
});

describe('errors', () => {
  it('keep line ends, quotes and letters of every script readable', () =>
    from0(async () => {
      const text = 'first line\n\tsecond "line" \\ naïve — 線';
      const error: unknown = await rpcSync('w1', fail, [text]).catch((e: unknown) => e);
      expect((error as Error).message).toBe(text);
    }));

  it('of a class that cannot be built here still say what was thrown', () =>
    from0(async () => {
      registerErrorType(Unbuildable);
      const error: unknown = await rpcSync('w1', failUnbuildable).catch((e: unknown) => e);
      expect((error as Error).message).toContain('the first text');
      expect(rpcInfo(error)?.code).toBe('remote-error');
    }));

  it('of arguments that no tensor operation takes come back', () =>
    from0(async () => {
      await expect(rpcSync('w1', add, [] as never)).rejects.toThrow(Error);
      await expect(rpcAsync('w1', add, [] as never)).rejects.toThrow(Error);
    }));
});

describe('the time that calls have by default', () => {
  it('holds for calls that begin after it was set, and zero is no limit', () =>
    from0(async () => {
      try {
        const before = rpcAsync('w1', sleep, [150]);
        setRpcTimeoutMs(20);
        expect(getRpcTimeoutMs()).toBe(20);
        await expect(rpcAsync('w1', sleep, [2_000])).rejects.toMatchObject({ code: 'deadline-exceeded' });
        expect(await before).toBe(150);
        setRpcTimeoutMs(0);
        expect(await rpcAsync('w1', sleep, [50])).toBe(50);
      } finally {
        setRpcTimeoutMs(60_000);
      }
    }));
});

describe('the promise of a call', () => {
  it('fails each time it is awaited', () =>
    from0(async () => {
      const call = rpcAsync('w1', fail, ['again']);
      for (let i = 0; i < 3; i++) await expect(call).rejects.toThrow('again');
    }));

  it('takes many callbacks, and chains of them', () =>
    from0(async () => {
      const call = rpcAsync('w1', plus, [1, 2]);
      expect(await call.then((x) => x + 1)).toBe(4);
      expect(await Promise.all(many(10, (i) => call.then((x) => x + i)))).toEqual(many(10, (i) => 3 + i));
      let chain = call;
      for (let i = 0; i < 20; i++) chain = chain.then((x) => x + 1);
      expect(await chain).toBe(23);
      expect(await call).toBe(3);
    }));

  it('takes callbacks that fail, that see a failure, and that throw another', () =>
    from0(async () => {
      const wrong = rpcAsync('w1', echo, [5]).then((x) => (x as string).toUpperCase());
      await expect(wrong).rejects.toThrow(TypeError);
      const seen: unknown[] = [];
      const other = rpcAsync('w1', fail, ['theirs']).catch((error: unknown) => {
        seen.push((error as Error).message);
        throw new SyntaxError('ours');
      });
      await expect(other).rejects.toThrow(new SyntaxError('ours'));
      expect(seen).toEqual(['theirs']);
    }));

  it('takes callbacks that call on, inside each other', () =>
    from0(async () => {
      const sum = await rpcAsync('w1', plus, [1, 2]).then((x) =>
        rpcAsync('w2', plus, [x, 3]).then((y) => rpcAsync('w1', plus, [y, 4]).then((z) => z * 10)),
      );
      expect(sum).toBe(100);
    }));

  it('keeps its value whatever runs when it is done', () =>
    from0(async () => {
      let done = 0;
      const call = rpcAsync('w1', plus, [1, 2]);
      expect(await call.finally(() => void done++)).toBe(3);
      expect([await call, done]).toEqual([3, 1]);
    }));
});

describe('asynchronous handlers', () => {
  const withCallback = rpcFunction('upstream-calls/with-callback', (to: string, x: number) =>
    rpcAsync(to, plus, [x, 1]).then((y) => y + 1),
  );
  const bridged = rpcFunction(
    'upstream-calls/bridged',
    (to: string, x: number) =>
      new Promise<number>((resolve, reject) => {
        rpcAsync(to, plus, [x, 1]).then((y) => resolve(y + 5), reject);
      }),
  );
  const nested = rpcFunction('upstream-calls/nested', (to: string, x: number) => rpcAsync(to, plusOn, ['w0', x, 1]));

  it.each(modes)('answer with what another worker computed: %s', (_, call) =>
    from0(async () => {
      expect(await call('w1', plusOn, ['w2', 1, 2])).toBe(3);
      expect(await call('w1', withCallback, ['w2', 1])).toBe(3);
      expect(await call('w1', bridged, ['w2', 1])).toBe(7);
      expect(await call('w1', nested, ['w2', 1])).toBe(2);
    }),
  );
});
