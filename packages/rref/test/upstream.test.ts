/** @file PyTorch's own RRef tests, with the programs and the comparisons of the originals: dense, and with sparse tensors. */
import { shown } from '@backwire/testing';
import { currentAgent, getWorkerInfo, rpcAsync, rpcClass, rpcFunction, rpcSync, type To } from '@backwire/rpc';
import { add, ones, rpcName, type Tensor } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { withGroup } from './group.ts';
import { sparse } from './tensors.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

const myFunction = rpcFunction('upstream/my-function', (a: Tensor, b: Tensor | number, c: Tensor | number) =>
  a.add(b).add(c),
);
const myRRefFunction = rpcFunction('upstream/my-rref-function', async (a: RRef<Tensor>, b: RRef<Tensor>) =>
  (await a.toHere()).add(await b.toHere()),
);
const addRRefToValue = rpcFunction('upstream/add-rref-to-value', async (rref: RRef<Tensor>, value: Tensor) =>
  (await rref.toHere()).add(value),
);
const addNumbers = rpcFunction('upstream/add-numbers', ({ a, b, c }: { a: number; b: number; c: number }) => a + b + c);
const addRRefToNumber = rpcFunction('upstream/add-rref-to-number', async (rref: RRef<number>, value: number) =>
  (await rref.toHere()) + value,
); // prettier-ignore
const nestedRemote = rpcFunction('upstream/nested-remote', (to: string, x: Tensor, y: Tensor | number) =>
  remote(to, add, [x, y]).toHere(),
);
const nestedRRef = rpcFunction(
  'upstream/nested-rref',
  (to: string, x: Tensor, y: Tensor | number, z: Tensor | number): RRef<Tensor>[] => [
    remote(to, add, [x, y]),
    remote(to, add, [x, z]),
  ],
);
const returnRRef = rpcFunction('upstream/return-rref', (to: string, x: Tensor, y: Tensor | number) =>
  remote(to, add, [x, y]),
);
/** A list with an RRef to what the next worker of the chain gives, and the value at its end. */
const forwardChain = rpcFunction(
  'upstream/forward-chain',
  async (to: number, rref: RRef<Tensor>, hops: number): Promise<unknown> =>
    hops === 0 ? rref.toHere() : [remote(to, forwardChain, [(to + 1) % 3, rref, hops - 1])],
);

class MyClass {
  static readonly [rpcName] = 'upstream/MyClass';
  private a: number;
  constructor(a: number) {
    this.a = a;
  }
  getValue(): number {
    return this.a;
  }
  incrementValue(by: number): void {
    this.a += by;
  }
  myInstanceMethod(b: number): number {
    return this.a + b;
  }
  async mySlowMethod(ms: number): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return this.a;
  }
  /** PyTorch's class method: it needs its class. */
  static myClassMethod(d: number, e: Tensor): Tensor {
    return new this(d).plus(e);
  }
  static myStaticMethod(f: number): boolean {
    return f > 10;
  }
  private plus(e: Tensor): Tensor {
    return e.add(this.a);
  }
}
rpcClass(MyClass, {
  methods: ['getValue', 'incrementValue', 'myInstanceMethod', 'mySlowMethod'],
  statics: ['myClassMethod', 'myStaticMethod'],
});
const increment = rpcFunction('upstream/increment', async (rref: RRef<MyClass>, by: number) =>
  (await rref.localValue()).incrementValue(by),
);
const valueOf = rpcFunction('upstream/value-of', async (rref: RRef<MyClass>) => (await rref.localValue()).getValue());
const listOfRRefs = rpcFunction('upstream/list-of-rrefs', (values: number[]) =>
  values.map((value) => createRRef(new MyClass(value))),
);
const makeSlowly = rpcFunction('upstream/make-slowly', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return new MyClass(1);
});

class AsyncExecution {
  static readonly [rpcName] = 'upstream/AsyncExecution';
  static staticAsyncAdd(to: string, x: Tensor, y: Tensor, z: Tensor): Promise<Tensor> {
    return rpcAsync(to, add, [x, y]).then((sum) => sum.add(z));
  }
  static classAsyncAdd(to: string, x: Tensor, y: Tensor, z: Tensor): Promise<Tensor> {
    return new Promise((resolve, reject) => {
      this.staticAsyncAdd(to, x, y, z).then(resolve, reject);
    });
  }
  boundAsyncAdd(to: string, x: Tensor, y: Tensor, z: Tensor): Promise<Tensor> {
    return rpcAsync(to, add, [x, y]).then((sum) => sum.add(z));
  }
}
rpcClass(AsyncExecution, { methods: ['boundAsyncAdd'], statics: ['staticAsyncAdd', 'classAsyncAdd'] });
type WithStatics<C extends abstract new (...args: never) => object> = InstanceType<C> & Omit<C, 'prototype'>;

describe.each([
  ['dense', (): Tensor => ones([2, 2]), true],
  ['sparse', sparse, false],
] as const)('with %s tensors', (_kind, make, numbers) => {
  /** An operand that is a number where PyTorch's test takes one; each differs from the others. */
  const or = (n: number): Tensor | number => (numbers ? n : make().mul(n));
  const equal = (found: Tensor, expected: Tensor): void => expect(shown(found)).toEqual(shown(expected));

  it.each(['w1', 'w0'])('what a remote call to this worker made is an argument of calls to %s', (to) =>
    withGroup(3, async () => {
      const [x, y, z] = [make(), or(1), or(3)];
      const own = remote(getWorkerInfo(), myFunction, [x, y, z]);
      const first = rpcAsync(to, addRRefToValue, [own, x]);
      const second = await rpcSync(to, addRRefToValue, [own, x.add(y)]);
      equal(second, x.add(y).add(z).add(x).add(y));
      equal(await first, x.add(y).add(z).add(x));
    }),
  );

  it.each<[string, () => To]>([
    ['its record', () => getWorkerInfo()],
    ['its name', () => 'w0'],
    ['its rank', () => 0],
  ])('a remote call of a function to this worker, by %s, gives what a call here gives', (_, to) =>
    withGroup(3, async () => {
      const [x, y, z] = [make(), or(1), or(3)];
      equal(await remote(to(), myFunction, [x, y, z]).toHere(), x.add(y).add(z));
    }),
  );

  it.each(['w1', 'w0'])('what a remote call to this worker made is an argument of remote calls to %s', (to) =>
    withGroup(3, async () => {
      const [x, y, z] = [make(), or(1), or(3)];
      const own = remote(getWorkerInfo(), myFunction, [x, y, z]);
      equal(await own.toHere(), x.add(y).add(z));
      equal(await remote(to, addRRefToValue, [own, x]).toHere(), x.add(y).add(z).add(x));
    }),
  );

  it('RRefs go back to their owner in a remote call', () =>
    withGroup(3, async () => {
      const [a, b] = [remote('w1', add, [make(), or(1)]), remote('w1', add, [make(), or(2)])];
      const sum = remote('w1', myRRefFunction, [a, b]);
      equal(
        await sum.toHere(),
        make()
          .add(or(1))
          .add(make().add(or(2))),
      );
    }));

  it.each([
    ['go back to their owner in a call', 'w1', 'call'],
    ['go on to a third worker in a remote call', 'w2', 'remote'],
  ])('RRefs %s', (_, to, way) =>
    withGroup(3, async () => {
      const a = remote('w1', myFunction, [make(), or(1), or(2)]);
      const b = remote('w1', myFunction, [make(), or(3), or(4)]);
      const sum = way === 'call' ? rpcSync(to, myRRefFunction, [a, b]) : remote(to, myRRefFunction, [a, b]).toHere();
      const expected = make()
        .add(or(1))
        .add(or(2))
        .add(make().add(or(3)).add(or(4)));
      equal(await sum, expected);
    }),
  );

  it('a function may make a value elsewhere and fetch it', () =>
    withGroup(3, async () => {
      equal(await remote('w1', nestedRemote, ['w2', make(), or(3)]).toHere(), make().add(or(3)));
    }));

  it('a call returns an RRef that a third worker owns', () =>
    withGroup(3, async () => {
      const rref = await rpcSync('w1', returnRRef, ['w2', make(), or(1)]);
      expect([rref.ownerName(), rref.isOwner()]).toEqual(['w2', false]);
      equal(await rref.toHere(), make().add(or(1)));
    }));

  it.each([1, 20])('RRefs to lists of RRefs, %i at once, are unwrapped', (count) =>
    withGroup(3, async () => {
      const all = Array.from({ length: count }, () => remote('w1', nestedRRef, ['w2', make(), or(1), or(2)]));
      for (const rref of all) {
        const inner = await rref.toHere();
        expect(inner.map((each) => each.ownerName())).toEqual(['w2', 'w2']);
        equal(await (inner[0] as RRef<Tensor>).toHere(), make().add(or(1)));
        equal(await (inner[1] as RRef<Tensor>).toHere(), make().add(or(2)));
      }
    }),
  );
});

it('a chain of RRefs that was forwarded over eight hops is unwrapped in eight steps', () =>
  withGroup(3, async () => {
    const value = remote('w1', add, [ones([1, 1]), 1]);
    let chain = await forwardChain(1, value, 8);
    for (let i = 0; i < 8; i++) {
      expect(chain).toHaveLength(1);
      const [next] = chain as [RRef<unknown>];
      chain = await next.toHere();
    }
    expect(shown(chain as Tensor)).toEqual(shown(ones([1, 1]).add(1)));
  }));

describe('remote', () => {
  it('takes named arguments as an object', () =>
    withGroup(3, async () => {
      expect(await remote('w1', addNumbers, [{ a: 1, b: 2, c: 3 }]).toHere()).toBe(6);
    }));

  it('gives a future for the creation: confirmed()', () =>
    withGroup(3, async () => {
      const all = [
        remote('w1', add, [ones([1]), 1]),
        remote('w1', addNumbers, [{ a: 1, b: 1, c: 0 }]),
        remote('w1', MyClass, [1]),
      ] as RRef<unknown>[];
      await Promise.all(all.map((rref) => rref.confirmed()));
      expect(all.map((rref) => rref.confirmedByOwner())).toEqual([true, true, true]);
    }));

  it('takes what this worker owns, as calls do', () =>
    withGroup(3, async () => {
      const own = createRRef(40);
      expect(await rpcSync('w1', addRRefToNumber, [own, 50])).toBe(90);
      expect(await rpcAsync('w1', addRRefToNumber, [own, 50])).toBe(90);
      expect(await remote('w1', addRRefToNumber, [own, 50]).toHere()).toBe(90);
    }));
});

describe('owners', () => {
  it('are equal when they are one worker', () =>
    withGroup(3, async () => {
      const [a, b] = [createRRef(40), createRRef(50)];
      const [c, d] = [remote('w1', add, [ones([1]), 1]), remote('w1', add, [ones([1]), 1])];
      expect(a.owner()).not.toEqual(23);
      expect(c.owner()).toEqual(d.owner());
      expect(a.owner()).not.toEqual(c.owner());
      expect(a.owner()).toEqual(b.owner());
      expect(a.owner()).toEqual(getWorkerInfo());
      expect(c.owner()).toEqual(getWorkerInfo('w1'));
      const byOwner = new Map<number, unknown>([
        [a.owner().id, a],
        [c.owner().id, c],
      ]);
      expect([b, d].map((rref) => byOwner.get(rref.owner().id))).toEqual([a, c]);
      expect(byOwner.size).toBe(2);
    }));

  it('keep what functions run there have changed, called in all three ways', () =>
    withGroup(3, async () => {
      const rref = remote('w1', MyClass, [10]);
      await rpcSync(rref.owner(), increment, [rref, 2]);
      await rpcAsync(rref.owner(), increment, [rref, 5]);
      await remote(rref.owner(), increment, [rref, 7]).toHere();
      expect(await rpcSync('w1', valueOf, [rref])).toBe(24);
    }));

  it('give lists of what they own, which others change there', () =>
    withGroup(3, async () => {
      const rrefs = await rpcSync('w1', listOfRRefs, [[1, 2, 3]]);
      for (const rref of rrefs) await rpcSync(rref.owner(), increment, [rref, 10]);
      expect(await Promise.all(rrefs.map((rref) => rpcSync(rref.owner(), valueOf, [rref])))).toEqual([11, 12, 13]);
    }));
});

describe.each(['w1', 'w0'])('proxies of a value on %s', (to) => {
  it('serve a tensor, a new one for each call', () =>
    withGroup(3, async () => {
      const rref = remote(to, myFunction, [ones([2, 2]), 1, 3]);
      const expected = ones([2, 2]).add(4);
      expect(shown(await rref.rpcSync().sum())).toEqual(shown(expected.sum()));
      expect(shown(await rref.rpcAsync().add(1))).toEqual(shown(expected.add(1)));
      expect(shown(await rref.remote().view([1, 4]).toHere())).toEqual(shown(expected.view([1, 4])));
    }));

  it('refuse what a tensor does not have, in its words', () =>
    withGroup(3, async () => {
      const rref = remote(to, myFunction, [ones([2, 2]), 1, 3]);
      const untyped = rref as unknown as RRef<{ nonExist(): void }>;
      const none = "type object 'Tensor' has no attribute 'nonExist'";
      for (const ask of [
        () => untyped.rpcSync().nonExist(),
        () => untyped.rpcAsync().nonExist(),
        () => untyped.remote().nonExist().toHere(),
      ]) {
        const error: unknown = await ask().catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(TypeError);
        expect((error as Error).message).toContain(none);
      }
    }));

  it('serve a tensor, and one serves many calls', () =>
    withGroup(3, async () => {
      const rref = remote(to, myFunction, [ones([2, 2]), 1, 3]);
      const expected = ones([2, 2]).add(4);
      const [sync, later, made] = [rref.rpcSync(), rref.rpcAsync(), rref.remote()];
      expect(shown(await sync.sum())).toEqual(shown(expected.sum()));
      expect(shown(await sync.add(1))).toEqual(shown(expected.add(1)));
      expect(shown(await sync.view([1, 4]))).toEqual(shown(expected.view([1, 4])));
      expect(shown(await later.sum())).toEqual(shown(expected.sum()));
      expect(shown(await later.add(3))).toEqual(shown(expected.add(3)));
      expect(shown(await later.view([4, 1]))).toEqual(shown(expected.view([4, 1])));
      expect(shown(await made.sum().toHere())).toEqual(shown(expected.sum()));
      expect(shown(await made.add(5).toHere())).toEqual(shown(expected.add(5)));
      expect(shown(await made.view([-1]).toHere())).toEqual(shown(expected.view([-1])));
    }));

  it('serve the methods of an object and those of its class, in all three ways', () =>
    withGroup(3, async () => {
      const rref = remote(to, MyClass, [7]) as unknown as RRef<WithStatics<typeof MyClass>>;
      const [sync, later, made] = [rref.rpcSync(), rref.rpcAsync(), rref.remote()];
      const values = async (): Promise<number[]> => [
        await sync.getValue(),
        await later.getValue(),
        await made.getValue().toHere(),
      ];
      expect(await values()).toEqual([7, 7, 7]);
      expect(await sync.incrementValue(1)).toBe(undefined);
      expect(await later.incrementValue(1)).toBe(undefined);
      expect(await made.incrementValue(1).toHere()).toBe(undefined);
      expect(await values()).toEqual([10, 10, 10]);
      expect(await sync.myInstanceMethod(2)).toBe(12);
      expect(await later.myInstanceMethod(3)).toBe(13);
      expect(await made.myInstanceMethod(4).toHere()).toBe(14);
      expect(await sync.myStaticMethod(9)).toBe(false);
      expect(await later.myStaticMethod(10)).toBe(false);
      expect(await made.myStaticMethod(11).toHere()).toBe(true);
      expect(shown(await sync.myClassMethod(2, ones([2, 2])))).toEqual(shown(ones([2, 2]).add(2)));
      expect(shown(await later.myClassMethod(2, ones([3, 3])))).toEqual(shown(ones([3, 3]).add(2)));
      expect(shown(await made.myClassMethod(2, ones([4, 4])).toHere())).toEqual(shown(ones([4, 4]).add(2)));
    }));
});

it.each(['sync', 'async', 'remote'] as const)('static, class and bound methods call on through a proxy: %s', (way) =>
  withGroup(3, async () => {
    const rref = remote('w1', AsyncExecution) as unknown as RRef<WithStatics<typeof AsyncExecution>>;
    const [x, y] = [ones([2, 2]), ones([2, 2]).add(1)];
    for (const method of ['staticAsyncAdd', 'classAsyncAdd', 'boundAsyncAdd'] as const) {
      const proxy = way === 'sync' ? rref.rpcSync() : rref.rpcAsync();
      const sum = way === 'remote' ? rref.remote()[method]('w2', x, x, y).toHere() : proxy[method]('w2', x, x, y);
      expect(shown(await sum)).toEqual(shown(x.mul(4)));
    }
  }),
);

it('types are asked for once, of a tensor and of an object', () =>
  withGroup(3, async ([caller]) => {
    const calls = (): number => Number(caller?.metrics()['calls_sent']);
    const tensor = remote('w1', add, [ones([2]), 1]);
    await tensor.confirmed();
    const before = calls();
    expect(await tensor.typeName()).toBe('Tensor');
    expect(calls()).toBe(before + 1);
    for (let i = 0; i < 10; i++) expect(await tensor.typeName()).toBe('Tensor');
    expect(calls()).toBe(before + 1);
    expect(await remote('w1', MyClass, [0]).typeName()).toBe('upstream/MyClass');
  }));

describe('timeouts', () => {
  it('of a type query, whose value is still being made', () =>
    withGroup(3, async () => {
      const rref = remote('w1', makeSlowly, [150]);
      await expect(rref.typeName({ timeoutMs: 20 })).rejects.toThrow('RPC ran for more than set timeout');
      expect(await rref.typeName({ timeoutMs: 5_000 })).toBe('upstream/MyClass');
    }));

  it('of a proxy hold for its calls, on their way to a value that is being made and in the method', () =>
    withGroup(3, async () => {
      const options = { timeoutMs: 20 };
      const timedOut = 'RPC ran for more than set timeout';
      const rref = remote('w1', MyClass, [1]);
      await rref.confirmed();
      await expect(rref.rpcSync(options).mySlowMethod(200)).rejects.toThrow(timedOut);
      await expect(rref.rpcAsync(options).mySlowMethod(200)).rejects.toThrow(timedOut);
      const late = 'RRef creation via rpc.remote() timed out';
      await expect(rref.remote(options).mySlowMethod(200).toHere()).rejects.toThrow(late);
      expect(await rref.rpcSync({ timeoutMs: 0 }).mySlowMethod(10)).toBe(1);

      const slow = remote('w1', makeSlowly, [300]);
      await expect(slow.rpcSync(options).myInstanceMethod(1)).rejects.toThrow(timedOut);
      await expect(slow.rpcAsync(options).myInstanceMethod(1)).rejects.toThrow(timedOut);
      await expect(slow.remote(options).myInstanceMethod(1).toHere()).rejects.toThrow(late);
      expect(await slow.typeName()).toBe('upstream/MyClass');
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
