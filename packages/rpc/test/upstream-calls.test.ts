/** @file PyTorch's tests of calls: destinations, functions and methods, arguments and results, errors and times. */
import { errorMatching, shown } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, concat, nonzero, ones, rand, rpcName, tensor, Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import {
  callContext,
  getRpcTimeoutMs,
  getWorkerInfo,
  registerErrorType,
  RemoteError,
  rpcAsync,
  rpcClass,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcSync,
  setRpcTimeoutMs,
  WorkerInfo,
} from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { exactly, repeated, sparse, workedOn } from './tensors.ts';

const echo = rpcFunction('upstream-calls/echo', (x: unknown) => x);
const sumOfThree = rpcFunction(
  'upstream-calls/sum-of-three',
  ({ a, b, c }: { a: number; b: number; c: number }) => a + b + c,
);
const sumOf = rpcFunction('upstream-calls/sum', (a: Tensor, b: Tensor) => a.add(b));
const nothing = rpcFunction('upstream-calls/nothing', () => undefined);
const least = rpcFunction('upstream-calls/min', Math.min);
const whoAmI = rpcFunction('upstream-calls/who', () => getWorkerInfo().id);
const light = rpcFunction('upstream-calls/light', () => 0);
/** What came to each worker. */
const heard = new Map<number, number[]>();
const hear = rpcFunction('upstream-calls/hear', (x: number) => {
  const at = whoAmI();
  heard.set(at, [...(heard.get(at) ?? []), x]);
  return [x, callContext().caller.name, at];
});
/** By the name that is given, else whoever asks. */
const askBack = rpcFunction('upstream-calls/ask-back', (to: string | null, x: Tensor, y: Tensor | number) =>
  rpcSync(to ?? callContext().caller, add, [x, y]),
);
const heavy = rpcFunction('upstream-calls/heavy', (x: Tensor) => workedOn(x));
const sleep = rpcFunction('upstream-calls/sleep', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return ms;
});
const fail = rpcFunction('upstream-calls/fail', (text: string): number => {
  throw new RangeError(text);
});
let rebuilt = 0;
class Unbuildable extends Error {
  constructor(message: string, built?: boolean) {
    super(message);
    if (built === true) return;
    rebuilt++;
    throw new Error('it cannot be built again');
  }
}
const failUnbuildable = rpcFunction('upstream-calls/fail-unbuildable', (): void => {
  throw new Unbuildable('the first text', true);
});

/** Travels by value, with what its methods need; called by name, its class makes one, and answers for all. */
class Account {
  static readonly [rpcName] = 'upstream-calls/Account';
  static readonly bonus = 1000;
  readonly a: number;
  constructor(a: number) {
    this.a = a;
  }
  plus(b: number): number {
    return this.a + b;
  }
  static withBonus(d: number, e: number): number {
    return this.bonus + d + e;
  }
  static isLarge(f: number): boolean {
    return f > 12;
  }
}
const Accounts = rpcClass(Account, { methods: ['plus'], statics: ['withBonus', 'isLarge'] });
registerValueType({
  name: 'upstream-calls/Account',
  match: Account,
  encode: ({ a }) => a,
  decode: (plain) => new Account(plain as number),
});
const plusOf = rpcFunction('upstream-calls/plus-of', (account: Account, b: number) => account.plus(b));

/** Tensors next to and inside of each other, one of them as a key. */
class Boxed {
  readonly tensors: Tensors;
  constructor(tensors: Tensors) {
    this.tensors = tensors;
  }
}
type Tensors = [Tensor, Tensor[], Tensor[][], (Tensor | Tensor[])[], Map<Tensor, (Tensor | Tensor[])[]>];
registerValueType({
  name: 'upstream-calls/Boxed',
  match: Boxed,
  encode: (box) => box.tensors,
  decode: (tensors) => new Boxed(tensors as Tensors),
});
function boxed(make: () => Tensor): Boxed {
  const a = make();
  const b = [a, a];
  return new Boxed([a, b, [b, b], [a, b], new Map([[a, [a, b]]])]);
}
const sumOfAll = rpcFunction(
  'upstream-calls/sum-of-all',
  (list: Tensor[], box: Boxed, record: Record<string, Tensor>) => {
    const sum = list[0] as Tensor;
    // In place, of what came, as PyTorch's does.
    for (const each of [...list, ...Object.values(record)]) sum.add_(each);
    return [sum, box, ...box.tensors.slice(0, 3)];
  },
);
const sumOfList = rpcFunction('upstream-calls/sum-of-list', (list: Tensor[]) => {
  const sum = list[0] as Tensor;
  for (const each of list.slice(1)) sum.add_(each);
  return sum;
});
const checkView = rpcFunction('upstream-calls/check-view', (view: Tensor, packed: Tensor) => {
  if (view.isContiguous || !packed.isContiguous) throw new Error('of the two the view is not contiguous');
  if (!view.equal(packed)) throw new Error('the two are not equal');
  return view;
});

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(4);
});
// As the originals end: all together, and in good order.
afterAll(() => Promise.all(cluster.agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' }))));
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
/** Runs `fn` on all four workers at once: `n` is the rank and 1, `next` the worker after it. */
async function onAll(fn: (at: { rank: number; n: number; next: string }) => Promise<void>): Promise<void> {
  await Promise.all(
    many(4, (rank) => cluster.at(rank).run(() => fn({ rank, n: rank + 1, next: `w${(rank + 1) % 4}` }))),
  );
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
/** What a value that holds tensors is made of. */
function parts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(parts);
  if (value instanceof Boxed) return { box: parts(value.tensors) };
  if (value instanceof Map) return { map: [...(value as Map<unknown, unknown>)].map(parts) };
  if (value instanceof Tensor) return exactly(value);
  return { record: Object.entries(value as object).map(([key, item]) => [key, parts(item)]) };
}
const modes = [
  ['rpcSync', rpcSync],
  ['rpcAsync', rpcAsync],
] as const;
async function timesOut(call: Promise<unknown>, ms: number): Promise<void> {
  const message = `RPC ran for more than set timeout (${ms} ms)`;
  await expect(call).rejects.toThrow(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
}

describe.each(modes)('%s', (_, call) => {
  it('reaches the worker itself', () =>
    onAll(async () => {
      // As in PyTorch's test one is under way while the other is made and awaited.
      const first = rpcAsync(getWorkerInfo(), add, [ones([2, 2]), 1]);
      const second = await call(getWorkerInfo(), add, [ones([2, 2]), 1]);
      expect(shown(await first)).toEqual(shown(ones([2, 2]).add(1)));
      expect(shown(second)).toEqual(shown(ones([2, 2]).add(1)));
    }));

  it('reaches a worker by its name', () =>
    onAll(async ({ n, next }) => {
      expect(shown(await call(next, add, [ones([n, n]), ones([n, n])]))).toEqual(shown(ones([n, n]).mul(2)));
    }));

  it('reaches a worker by its record', () =>
    onAll(async ({ n, next }) => {
      const sum = await call(getWorkerInfo(next), add, [ones([n, n]), ones([n, n])]);
      expect(shown(sum)).toEqual(shown(ones([n, n]).mul(2)));
    }));

  it('reaches a worker by its rank, and refuses ranks that are none', () =>
    onAll(async () => {
      for (const rank of [0, 1, 2, 3]) expect(await call(rank, whoAmI)).toBe(rank);
      for (const [bad, code, message] of [
        [-1, 'not-found', 'could not find destination id -1'],
        [4, 'not-found', 'could not find destination id 4'],
        [0.5, 'invalid-argument', 'Cannot get WorkerInfo from name 0.5'],
        [1.5, 'invalid-argument', 'Cannot get WorkerInfo from name 1.5'],
      ] as const)
        await expect(call(bad, whoAmI)).rejects.toThrow(errorMatching(RpcError, { code, message }));
    }));

  it('adds sparse tensors, coalesced or not, on workers by rank', () =>
    onAll(async () => {
      for (const rank of [0, 1, 2, 3]) {
        for (const make of [sparse, repeated, () => repeated().coalesce()])
          expect(shown(await call(rank, add, [make(), make()]))).toEqual(shown(make().mul(2)));
      }
    }));

  it('keeps a promise at home: it is no argument, alone or inside of one', () =>
    onAll(async ({ next }) => {
      for (const argument of [Promise.resolve(1), { inside: [rpcAsync(next, light)] }]) {
        await expect(call(next, echo, [argument])).rejects.toThrow(
          errorMatching(TypeError, { message: /cannot send an instance of class \w*Promise at .*: await it/ }),
        );
      }
      expect(await call(next, echo, [1])).toBe(1);
    }));

  it('takes a time of its own instead of the one by default, shorter, longer, and none', () =>
    onAll(async ({ next }) => {
      await timesOut(call(next, sleep, [2_000], { timeoutMs: 20 }), 20);
      expect(await call(next, sleep, [60])).toBe(60);
      setRpcTimeoutMs(10);
      try {
        await timesOut(call(next, sleep, [2_000]), 10);
        expect(await call(next, sleep, [60], { timeoutMs: 20_000 })).toBe(60);
        expect(await call(next, sleep, [60], { timeoutMs: 0 })).toBe(60);
      } finally {
        setRpcTimeoutMs(60_000);
      }
    }));
});

describe('functions', () => {
  it('of tensors take scalars', () =>
    onAll(async ({ n, next }) => {
      expect(shown(await rpcSync(next, add, [ones([n, n]), n]))).toEqual(shown(ones([n, n]).add(n)));
    }));

  it('of tensors may give a shape that depends on the values', () =>
    onAll(async ({ rank, next }) => {
      const x = ones([4, 4]);
      x.select(0, rank).select(0, rank).fill_(0);
      const found = await rpcSync(next, nonzero, [x]);
      expect(shown(found)).toEqual(shown(nonzero(x)));
      expect([found.shape, found.dtype]).toEqual([[15, 2], 'int64']);
    }));

  it('may be of the language', () =>
    onAll(async ({ n, next }) => {
      expect(await rpcSync(next, least, [n, n + 1, n + 2])).toBe(Math.min(n, n + 1, n + 2));
    }));

  it('take named arguments as an object', () =>
    onAll(async ({ n, next }) => {
      const named = { a: n, b: n + 1, c: n + 2 };
      expect(await rpcSync(next, sumOfThree, [named])).toBe(sumOfThree(named));
    }));

  it('may have no result', () =>
    onAll(async ({ next }) => {
      expect(await rpcSync(next, nothing)).toBe(nothing());
    }));

  it.each([
    ['dense', (n: number) => [ones([2, 2]), ones([2, 2]), n] as const],
    ['sparse', (n: number) => [sparse().mul(n), sparse().mul(n), n] as const],
  ])('are called twenty times in a row: %s', (_, make) =>
    onAll(async ({ n, next }) => {
      for (let i = 0; i < 20; i++) {
        const [x, y] = make(n + i);
        expect(exactly(await rpcSync(next, add, [x, y]))).toEqual(exactly(x.mul(2)));
      }
    }),
  );

  it('are called two at once, of two kinds', () =>
    onAll(async ({ n, next }) => {
      const to = getWorkerInfo(next);
      const [first, second] = [rpcAsync(to, Accounts.isLarge, [n + 10]), rpcAsync(to, least, [n, n + 1, n + 2])];
      expect([await first, await second]).toEqual([n + 10 > 12, n]);
    }));

  it('hear each from the worker before it', async () => {
    heard.clear();
    await onAll(async ({ rank, next }) => {
      expect(await rpcSync(next, hear, [rank])).toEqual([rank, `w${rank}`, (rank + 1) % 4]);
      await expect.poll(() => heard.get(rank)).toEqual([(rank + 3) % 4]);
    });
    // Each once, and nothing else.
    expect(heard).toEqual(new Map([0, 1, 2, 3].map((rank) => [rank, [(rank + 3) % 4]])));
  });

  it.each([
    ['dense', () => [ones([2, 2]), 1] as const],
    ['sparse', () => [sparse(), sparse()] as const],
  ])('call their caller back before they answer: %s', async (_, make) => {
    const sent = (): number[] => cluster.agents.map((agent) => Number(agent.metrics()['calls_sent']));
    const before = sent();
    await onAll(async ({ rank, next }) => {
      const [x, y] = make();
      for (const to of [`w${rank}`, null])
        expect(exactly(await rpcSync(next, askBack, [to, x, y]))).toEqual(exactly(x.add(y)));
    });
    // Two of each worker's own, and two back to the one that asked.
    expect(sent()).toEqual(before.map((count) => count + 4));
  });

  it('are called a thousand times at once, by each', () =>
    onAll(async ({ next }) => {
      expect(await Promise.all(many(1_000, () => rpcAsync(next, light)))).toEqual(many(1_000, () => 0));
    }));

  it.each([
    ['dense', () => ones([100, 100]).mul(3)],
    ['sparse', sparse],
  ])('work hard in twenty calls at once, each on a copy of what it was given: %s', (_, make) =>
    onAll(async ({ next }) => {
      const x = make();
      const expected = exactly(workedOn(make()));
      const results = await Promise.all(many(20, () => rpcAsync(next, heavy, [x])));
      for (const result of results) expect(exactly(result)).toEqual(expected);
      expect(exactly(x)).toEqual(exactly(make()));
    }),
  );

  it('that a worker has and another has no more are refused there, by name', () =>
    onAll(async ({ rank, next }) => {
      const name = `upstream-calls/only-here-${rank}` as const;
      const here = Object.assign((x: number) => x + 1, { [rpcName]: name });
      cluster.at(rank).register(here);
      const takeBack = cluster.at((rank + 1) % 4).register(here);
      expect(await rpcSync(next, here, [1])).toBe(2);
      takeBack();
      const message = `function '${name}' is not defined on worker '${next}'`;
      await expect(rpcSync(next, here, [1])).rejects.toThrow(
        errorMatching(RpcError, { code: 'not-found', executed: 'no', peer: { name: next }, message }),
      );
      expect([await rpcSync(`w${rank}`, here, [1]), await rpcSync(next, light)]).toEqual([2, 0]);
    }));
});

describe('classes', () => {
  it('make an object there, which comes by value', () =>
    onAll(async ({ n, next }) => {
      const made = await rpcSync(next, Account as never, [n] as never);
      expect(made).toBeInstanceOf(Account);
      expect((made as Account).a).toBe(n);
    }));

  it('send an object along with the call of its method', () =>
    onAll(async ({ n, next }) => {
      expect(await rpcSync(next, plusOf, [new Account(2), n])).toBe(new Account(2).plus(n));
    }));

  it('have class methods, which know their class', () =>
    onAll(async ({ n, next }) => {
      expect(await rpcSync(next, Accounts.withBonus, [n, n + 1])).toBe(Account.withBonus(n, n + 1));
    }));

  it('have static methods', () =>
    onAll(async ({ n, next }) => {
      expect(await rpcSync(next, Accounts.isLarge, [n + 10])).toBe(Account.isLarge(n + 10));
    }));
});

describe('arguments and results', () => {
  it('are tensors', () =>
    onAll(async ({ n, next }) => {
      const sum = await rpcSync(next, sumOf, [ones([n, n]), ones([n, n])]);
      expect(shown(sum)).toEqual(shown(sumOf(ones([n, n]), ones([n, n]))));
    }));

  it('are tensors of growing sizes, from none at all, in a hundred calls at once', () =>
    onAll(async ({ next }) => {
      const sums = await Promise.all(many(100, (i) => rpcAsync(next, sumOf, [ones([i, i]), ones([i, i])])));
      for (const [i, sum] of sums.entries()) {
        expect([sum.layout, sum.dtype, sum.shape]).toEqual(['strided', 'float32', [i, i]]);
        expect(sum.equal(sumOf(ones([i, i]), ones([i, i])))).toBe(true);
      }
    }));

  it.each([
    ['dense', (n: number) => ones([n, n])],
    ['sparse', () => sparse()],
  ])('hold %s tensors in lists, records, maps and objects, inside of each other', (_, make) =>
    onAll(async ({ n, next }) => {
      const args = () => [[make(n), make(n)], boxed(() => make(3)), { foo: make(n), bar: make(n) }] as const;
      const [list, box, record] = args();
      const there = await rpcSync(next, sumOfAll, [[...list], box, record]);
      expect(there[1]).toBeInstanceOf(Boxed);
      const ofList = await rpcSync(next, sumOfList, [[...list]]);
      // What was given is as it was.
      expect(parts([list, box, record])).toEqual(parts(args()));
      expect(parts(there)).toEqual(parts(sumOfAll([...list], box, record)));
      expect(parts(ofList)).toEqual(parts(sumOfList([...args()[0]])));
    }),
  );

  it('keep the values of a view, and that it is one', () =>
    onAll(async ({ next }) => {
      const view = rand([5, 5]).narrow(1, 2, 2);
      const packed = view.contiguous();
      expect([view.isContiguous, packed.isContiguous, view.equal(packed)]).toEqual([false, true, true]);
      const back = await rpcSync(next, checkView, [view, packed]);
      expect([back.isContiguous, shown(back)]).toEqual([false, shown(view)]);
      const turned = tensor([[1, 2, 3], [4, 5, 6]]).transpose(0, 1); // prettier-ignore
      expect(((await rpcSync(next, echo, [turned])) as Tensor).strides).toEqual([1, 3]);
    }));

  it('may be the record of a worker', () =>
    onAll(async ({ next }) => {
      const back = await rpcSync(next, echo, [getWorkerInfo()]);
      expect(back).toBeInstanceOf(WorkerInfo);
      expect(back).toEqual(getWorkerInfo());
    }));
});

describe('errors', () => {
  it('keep line ends, quotes and letters of every script readable', () =>
    onAll(async ({ next }) => {
      for (const text of [
        '\nFirst line of error \n next line of error \n last line of error',
        'first line\n\tsecond "line" \\ naïve — 線',
      ]) {
        await expect(rpcAsync(next, fail, [text])).rejects.toThrow(new RangeError(text));
      }
    }));

  it('of a class that cannot be built here still say what was thrown, and of which class', async () => {
    registerErrorType(Unbuildable);
    await onAll(async ({ next }) => {
      const peer = getWorkerInfo(next);
      const message = `On WorkerInfo(id=${peer.id}, name=${next}):\nUnbuildable: the first text`;
      const error: unknown = await rpcSync(next, failUnbuildable).catch((thrown: unknown) => thrown);
      expect(error).toEqual(errorMatching(RemoteError, { code: 'remote-error', remoteName: 'Unbuildable', message }));
      expect((error as RemoteError).peer).toEqual(peer);
    });
    expect(rebuilt).toBe(4);
  });

  it.each(modes)('of arguments that no tensor operation takes say so: %s', (_, call) =>
    onAll(async ({ next }) => {
      for (const [fn, name, args, what] of [
        [add, 'add', [], 'undefined'],
        [add, 'add', [null, 1], 'null'],
        [add, 'add', ['1', ones([1])], 'string'],
        [concat, 'cat', [[ones([1]), 5]], 'a list with number in it'],
      ] as const) {
        const error = await failure(call(next, fn as typeof add, args as never));
        const words = `aten::${name} failed to match any schema: its first argument is a tensor, or a list of tensors, not ${what}`;
        expect(error).toEqual(new TypeError(words));
        expect(rpcInfo(error)).toMatchObject({ code: 'remote-error', peer: { name: next } });
      }
      expect(shown(await call(next, add, [ones([1]), 1]))).toEqual(shown(ones([1]).add(1)));
    }),
  );
});

describe('the time that calls have by default', () => {
  it('holds for calls that begin after it was set, and zero is no limit', () =>
    onAll(async ({ next }) => {
      try {
        setRpcTimeoutMs(1);
        for (const call of many(10, () => rpcAsync(next, sleep, [2_000]))) await timesOut(call, 1);
        setRpcTimeoutMs(200_000);
        const before = rpcAsync(next, sleep, [100]);
        setRpcTimeoutMs(1);
        expect(getRpcTimeoutMs()).toBe(1);
        await timesOut(rpcAsync(next, sleep, [2_000]), 1);
        expect(await before).toBe(100);
        setRpcTimeoutMs(0);
        expect(await rpcAsync(next, sleep, [50])).toBe(50);
      } finally {
        setRpcTimeoutMs(60_000);
      }
    }));
});
