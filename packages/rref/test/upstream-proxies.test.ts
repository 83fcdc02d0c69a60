/** @file PyTorch's own tests of what is asked of a value through its RRef: methods by proxies, its type, and how long that may take. */
import { errorMatching, shown } from '@backwire/testing';
import { rpcAsync, rpcClass, RpcError, rpcFunction } from '@backwire/rpc';
import { add, ones, rpcName, zeros, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { callsSent, onAll, recordOrName } from './group.ts';
import { remote, type RRef } from '../src/index.ts';

const myFunction = rpcFunction('upstream-proxies/my-function', (a: Tensor, b: number, c: number) => a.add(b).add(c));

class MyClass {
  static readonly [rpcName] = 'upstream-proxies/MyClass';
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
  methods: ['getValue', 'incrementValue', 'myInstanceMethod'],
  statics: ['myClassMethod', 'myStaticMethod'],
});
/** Holds a tensor, to which others are added. */
class Held {
  static readonly [rpcName] = 'upstream-proxies/Held';
  private readonly a: Tensor;
  constructor(a: Tensor) {
    this.a = a;
  }
  sum(b: Tensor): Tensor {
    return this.a.add(b);
  }
  async slowSum(b: Tensor, ms: number): Promise<Tensor> {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return this.sum(b);
  }
}
rpcClass(Held, { methods: ['sum', 'slowSum'] });
const holdSlowly = rpcFunction('upstream-proxies/hold-slowly', async (a: Tensor, ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return new Held(a);
});

class AsyncExecution {
  static readonly [rpcName] = 'upstream-proxies/AsyncExecution';
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

describe.each(['w1', 'w0'])('proxies of a value on %s', (to) => {
  it('serve a tensor, a new one for each call', () =>
    onAll(4, async (at) => {
      const rref = remote(recordOrName(at, to), myFunction, [ones([2, 2]), 1, 3]);
      const expected = ones([2, 2]).add(4);
      expect(await rref.rpcSync().toArray()).toEqual(expected.toArray());
      expect(shown(await rref.rpcSync().sum())).toEqual(shown(expected.sum()));
      expect(shown(await rref.rpcAsync().add(1))).toEqual(shown(expected.add(1)));
      expect(shown(await rref.remote().view([1, 4]).toHere())).toEqual(shown(expected.view([1, 4])));
    }));

  it('refuse what a tensor does not have, in its words', () =>
    onAll(4, async (at) => {
      const rref = remote(recordOrName(at, to), myFunction, [ones([2, 2]), 1, 3]);
      const untyped = rref as unknown as RRef<{ nonExist(): void }>;
      const none = "type object 'Tensor' has no attribute 'nonExist'";
      for (const ask of [
        () => untyped.rpcSync().nonExist(),
        () => untyped.rpcAsync().nonExist(),
        () => untyped.remote().nonExist().confirmed(),
        () => untyped.remote().nonExist().toHere(),
      ]) {
        await expect(ask()).rejects.toThrow(errorMatching(TypeError, { message: none }));
      }
    }));

  it('serve a tensor, and one serves many calls', () =>
    onAll(4, async (at) => {
      const rref = remote(recordOrName(at, to), myFunction, [ones([2, 2]), 1, 3]);
      const expected = ones([2, 2]).add(4);
      const [sync, later, made] = [rref.rpcSync(), rref.rpcAsync(), rref.remote()];
      expect(await sync.toArray()).toEqual(expected.toArray());
      expect(shown(await sync.sum())).toEqual(shown(expected.sum()));
      expect(shown(await sync.add(1))).toEqual(shown(expected.add(1)));
      expect(shown(await sync.view([1, 4]))).toEqual(shown(expected.view([1, 4])));
      expect(await later.toArray()).toEqual(expected.toArray());
      expect(shown(await later.sum())).toEqual(shown(expected.sum()));
      expect(shown(await later.add(3))).toEqual(shown(expected.add(3)));
      expect(shown(await later.view([4, 1]))).toEqual(shown(expected.view([4, 1])));
      expect(await made.toArray().toHere()).toEqual(expected.toArray());
      expect(shown(await made.sum().toHere())).toEqual(shown(expected.sum()));
      expect(shown(await made.add(5).toHere())).toEqual(shown(expected.add(5)));
      expect(shown(await made.view([-1]).toHere())).toEqual(shown(expected.view([-1])));
    }));

  it('serve the methods of an object and those of its class, in all three ways', () =>
    onAll(4, async (at) => {
      const rref = remote(recordOrName(at, to), MyClass, [7]) as unknown as RRef<WithStatics<typeof MyClass>>;
      const expected = new MyClass(7);
      // A proxy of its own for each call, as in PyTorch's test.
      const values = async (): Promise<number[]> => [
        await rref.rpcSync().getValue(),
        await rref.rpcAsync().getValue(),
        await rref.remote().getValue().toHere(),
      ];
      expect(await values()).toEqual([1, 2, 3].map(() => expected.getValue()));
      expected.incrementValue(3);
      expect(await rref.rpcSync().incrementValue(1)).toBe(undefined);
      expect(await rref.rpcAsync().incrementValue(1)).toBe(undefined);
      expect(await rref.remote().incrementValue(1).toHere()).toBe(undefined);
      expect(await values()).toEqual([1, 2, 3].map(() => expected.getValue()));
      expect(await rref.rpcSync().myInstanceMethod(2)).toBe(expected.myInstanceMethod(2));
      expect(await rref.rpcAsync().myInstanceMethod(3)).toBe(expected.myInstanceMethod(3));
      expect(await rref.remote().myInstanceMethod(4).toHere()).toBe(expected.myInstanceMethod(4));
      expect(await rref.rpcSync().myStaticMethod(9)).toBe(MyClass.myStaticMethod(9));
      expect(await rref.rpcAsync().myStaticMethod(10)).toBe(MyClass.myStaticMethod(10));
      expect(await rref.remote().myStaticMethod(11).toHere()).toBe(MyClass.myStaticMethod(11));
      const sums = [
        await rref.rpcSync().myClassMethod(2, zeros([2, 2])),
        await rref.rpcAsync().myClassMethod(2, ones([3, 3])),
        await rref
          .remote()
          .myClassMethod(2, ones([4, 4]))
          .toHere(),
      ];
      const local = [zeros([2, 2]), ones([3, 3]), ones([4, 4])].map((x) => MyClass.myClassMethod(2, x));
      expect(sums.map(shown)).toEqual(local.map(shown));
      // In numbers as well, in case the class is wrong.
      expect([expected.getValue(), expected.myInstanceMethod(2), MyClass.myStaticMethod(10)]).toEqual([10, 12, false]);
    }));
});

it.each(['sync', 'async', 'remote'] as const)('static, class and bound methods call on through a proxy: %s', (way) =>
  onAll(4, async (at) => {
    const rref = remote(at('w1'), AsyncExecution) as unknown as RRef<WithStatics<typeof AsyncExecution>>;
    const [x, y] = [ones([2, 2]), ones([2, 2]).add(1)];
    let total: Tensor | undefined;
    for (const method of ['staticAsyncAdd', 'classAsyncAdd', 'boundAsyncAdd'] as const) {
      // A proxy of its own for each call, as in PyTorch's test.
      const call = {
        sync: () => rref.rpcSync()[method](at('w2'), x, x, y),
        async: () => rref.rpcAsync()[method](at('w2'), x, x, y),
        remote: () => rref.remote()[method](at('w2'), x, x, y).toHere(),
      }[way];
      const sum = await call();
      expect(shown(sum)).toEqual(shown(x.mul(4)));
      // What has come is this worker's to change.
      if (total === undefined) total = sum;
      else total.add_(sum);
    }
    expect(shown(total as Tensor)).toEqual(shown(x.mul(4).mul(3)));
  }),
);

it('types are asked for once, of a tensor and of an object', () =>
  onAll(4, async (at, self) => {
    const calls = (): number => callsSent(self);
    const tensor = remote(at('w1'), add, [ones([2]), 1]);
    const before = calls();
    // At once: the tensor is still being made.
    expect(tensor.confirmedByOwner()).toBe(false);
    const first = tensor.typeName();
    expect(first).toBeInstanceOf(Promise);
    expect(await first).toBe('Tensor');
    expect(calls()).toBe(before + 1);
    const again: unknown[] = [];
    for (let i = 0; i < 10; i++) {
      const next = tensor.typeName();
      again.push(next);
      const seen: unknown[] = [];
      void next.then((name) => seen.push(name));
      expect(await next).toBe('Tensor');
      expect(seen).toEqual(['Tensor']);
    }
    for (const each of again) expect(each).toBe(again[0]);
    expect(again[0]).toBeInstanceOf(Promise);
    expect(calls()).toBe(before + 1);
    const ofObject = remote(at('w1'), MyClass, [0]).typeName();
    expect(ofObject).toBeInstanceOf(Promise);
    expect(await ofObject).toBe('upstream-proxies/MyClass');
  }));

describe('timeouts', () => {
  const TIMED_OUT = /^RPC ran for more than set timeout \(20 ms\)/;
  const CREATION = /^RRef creation via rpc\.remote\(\) timed out/;
  const timesOut = async (use: Promise<unknown>, words: RegExp): Promise<void> => {
    // PyTorch's future of a creation fails with the other text, which is the cause here.
    const cause =
      words === CREATION ? errorMatching(RpcError, { code: 'deadline-exceeded', message: TIMED_OUT }) : undefined;
    await expect(use).rejects.toThrow(
      errorMatching(RpcError, { code: 'deadline-exceeded', message: words, ...(cause && { cause }) }),
    );
  };

  it('of a type query, whose value is still being made', () =>
    onAll(4, async (at) => {
      const rref = remote(at('w1'), holdSlowly, [ones([2, 2]), 150]);
      // The promise is there at once.
      const asked = rref.typeName({ timeoutMs: 20 });
      expect(asked).toBeInstanceOf(Promise);
      await timesOut(asked, TIMED_OUT);
      expect(await rref.typeName({ timeoutMs: 5_000 })).toBe('upstream-proxies/Held');
      expect(shown(await rref.rpcSync().sum(ones([2, 2])))).toEqual(shown(ones([2, 2]).mul(2)));
    }));

  it('of a proxy hold for its calls, on their way to a value that is being made and in the method', () =>
    onAll(4, async (at) => {
      const options = { timeoutMs: 20 };
      const x = ones([2, 2]);
      // An object and a slow one of its own for each way, of tensors and with tensors as arguments, as in PyTorch's test.
      for (const way of ['rpcSync', 'rpcAsync', 'remote'] as const) {
        const fails = async (use: (proxy: 'rpcSync' | 'rpcAsync') => Promise<unknown>, made: () => RRef<unknown>) => {
          if (way !== 'remote') return timesOut(use(way), TIMED_OUT);
          const rref = made();
          await timesOut(rref.confirmed(), CREATION);
          await timesOut(rref.toHere(), CREATION);
        };
        const rref = remote(at('w1'), Held, [x]);
        await rref.confirmed();
        await fails(
          (proxy) => rref[proxy](options).slowSum(x, 200),
          () => rref.remote(options).slowSum(x, 200),
        );
        expect(shown(await rref.rpcSync({ timeoutMs: 0 }).slowSum(x, 10))).toEqual(shown(x.mul(2)));

        const slow = remote(at('w1'), holdSlowly, [x, 150]);
        await fails(
          (proxy) => slow[proxy](options).sum(x),
          () => slow.remote(options).sum(x),
        );
        expect(await slow.typeName()).toBe('upstream-proxies/Held');
        expect(shown(await slow.rpcSync().sum(x))).toEqual(shown(x.mul(2)));
      }
    }));
});
