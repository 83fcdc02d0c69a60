/** @file PyTorch's own RRef tests, with the programs and the comparisons of the originals: dense, and with sparse tensors. */
import { errorMatching, shown } from '@backwire/testing';
import {
  currentAgent,
  getWorkerInfo,
  rpcAsync,
  rpcClass,
  RpcError,
  rpcFunction,
  rpcSync,
  type To,
} from '@backwire/rpc';
import { add, ones, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { onAll, recordOrName } from './group.ts';
import { sparse, whole } from './tensors.ts';
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
const fooAdd = rpcFunction('upstream/foo-add', () => ones([1]).add(ones([1])));
const twice = rpcFunction('upstream/twice', (x: Tensor) => x.add(x));
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
    hops === 0 ? rref.toHere() : [remote(to, forwardChain, [(to + 1) % 4, rref, hops - 1])],
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
}
rpcClass(MyClass, { methods: ['getValue', 'incrementValue'] });
const increment = rpcFunction('upstream/increment', async (rref: RRef<MyClass>, by: number) =>
  (await rref.localValue()).incrementValue(by),
);
const valueOf = rpcFunction('upstream/value-of', async (rref: RRef<MyClass>) => (await rref.localValue()).getValue());
const listOfRRefs = rpcFunction('upstream/list-of-rrefs', (values: number[]) =>
  values.map((value) => createRRef(new MyClass(value))),
);

describe.each([
  ['dense', (): Tensor => ones([2, 2]), true],
  ['sparse', sparse, false],
] as const)('with %s tensors', (_kind, like, numbers) => {
  /** Each worker has a tensor of its own. */
  const make = (): Tensor => like().mul(getWorkerInfo().id + 1);
  /** An operand that is a number where PyTorch's test takes one; each differs from the others. */
  const or = (n: number): Tensor | number => (numbers ? n : make().mul(n));
  const equal = (found: Tensor, expected: Tensor): void => expect(whole(found)).toEqual(whole(expected));

  it.each(['w1', 'w0'])('what a remote call to this worker made is an argument of calls to %s', (to) =>
    onAll(4, async (at) => {
      const [x, y, z] = [make(), or(1), or(3)];
      const own = remote(getWorkerInfo(), myFunction, [x, y, z]);
      const first = rpcAsync(recordOrName(at, to), addRRefToValue, [own, x]);
      const second = await rpcSync(recordOrName(at, to), addRRefToValue, [own, x.add(y)]);
      equal(second, x.add(y).add(z).add(x).add(y));
      equal(await first, x.add(y).add(z).add(x));
    }),
  );

  it.each<[string, () => To]>([
    ['its record', () => getWorkerInfo()],
    ['its name', () => getWorkerInfo().name],
    ['its rank', () => getWorkerInfo().id],
  ])('a remote call of a function to this worker, by %s, gives what a call here gives', (_, to) =>
    onAll(4, async () => {
      const [x, y, z] = [make(), or(1), or(3)];
      equal(await remote(to(), myFunction, [x, y, z]).toHere(), x.add(y).add(z));
    }),
  );

  it.each(['w1', 'w0'])('what a remote call to this worker made is an argument of remote calls to %s', (to) =>
    onAll(4, async (at) => {
      const [x, y, z] = [make(), or(1), or(3)];
      const own = remote(getWorkerInfo(), myFunction, [x, y, z]);
      // At once: its own creation is still under way.
      const sum = remote(recordOrName(at, to), addRRefToValue, [own, x]);
      equal(await sum.toHere(), x.add(y).add(z).add(x));
      equal(await own.toHere(), x.add(y).add(z));
    }),
  );

  it('RRefs go back to their owner in a remote call', () =>
    onAll(4, async (at) => {
      const [a, b] = [remote(at('w1'), add, [make(), or(1)]), remote(at('w1'), add, [make(), or(2)])];
      const sum = remote(at('w1'), myRRefFunction, [a, b]);
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
    onAll(4, async (at) => {
      const a = remote(at('w1'), myFunction, [make(), or(1), or(2)]);
      const b = remote(at('w1'), myFunction, [make(), or(3), or(4)]);
      const sum =
        way === 'call' ? rpcSync(at(to), myRRefFunction, [a, b]) : remote(at(to), myRRefFunction, [a, b]).toHere();
      const expected = make()
        .add(or(1))
        .add(or(2))
        .add(make().add(or(3)).add(or(4)));
      equal(await sum, expected);
    }),
  );

  it('a function may make a value elsewhere and fetch it', () =>
    onAll(4, async (at) => {
      equal(await remote(at('w1'), nestedRemote, [at('w2'), make(), or(3)]).toHere(), make().add(or(3)));
    }));

  it('a call returns an RRef that a third worker owns', () =>
    onAll(4, async (at) => {
      const rref = await rpcSync(at('w1'), returnRRef, [at('w2'), make(), or(1)]);
      expect([rref.ownerName(), rref.isOwner()]).toEqual([at('w2'), false]);
      equal(await rref.toHere(), make().add(or(1)));
    }));

  it.each([1, 20])('RRefs to lists of RRefs, %i at once, are unwrapped', (count) =>
    onAll(4, async (at) => {
      const all = Array.from({ length: count }, () => remote(at('w1'), nestedRRef, [at('w2'), make(), or(1), or(2)]));
      for (const rref of all) {
        const inner = await rref.toHere();
        expect(inner.map((each) => each.ownerName())).toEqual([at('w2'), at('w2')]);
        equal(await (inner[0] as RRef<Tensor>).toHere(), make().add(or(1)));
        equal(await (inner[1] as RRef<Tensor>).toHere(), make().add(or(2)));
      }
    }),
  );
});

it('a chain of RRefs that was forwarded over eight hops is unwrapped in eight steps', () =>
  onAll(4, async (at) => {
    const n = getWorkerInfo().id + 1;
    const value = remote(at('w1'), add, [ones([n, n]), n]);
    let chain = await forwardChain(n % 4, value, 8);
    for (let i = 0; i < 8; i++) {
      expect(chain).toHaveLength(1);
      const [next] = chain as [RRef<unknown>];
      chain = await next.toHere();
    }
    expect(shown(chain as Tensor)).toEqual(shown(ones([n, n]).add(n)));
  }));

describe('remote', () => {
  it('takes named arguments as an object', () =>
    onAll(4, async (at) => {
      const n = getWorkerInfo().id + 1;
      const named = { a: n, b: n + 1, c: n + 2 };
      expect(await remote(at('w1'), addNumbers, [named]).toHere()).toBe(addNumbers(named));
    }));

  it('gives a future for the creation: confirmed()', () =>
    onAll(4, async (at) => {
      const make = () =>
        [
          remote(at('w1'), add, [ones([1]), 1]),
          remote(at('w1'), fooAdd),
          remote(at('w1'), twice, [tensor(1)]),
          remote(at('w1'), MyClass, [1]),
        ] as const;
      const all: readonly RRef<unknown>[] = make();
      const futures = all.map((rref) => rref.confirmed());
      expect(futures.every((future) => future instanceof Promise)).toBe(true);
      await Promise.all(futures);
      expect(all.map((rref) => rref.confirmedByOwner())).toEqual([true, true, true, true]);

      // As in PyTorch's test: when the value has been fetched, too.
      const [sum, two, doubled, object] = make();
      expect(shown(await sum.toHere())).toEqual(shown(ones([1]).add(1)));
      expect(shown(await two.toHere())).toEqual(shown(fooAdd()));
      expect(shown(await doubled.toHere())).toEqual(shown(twice(tensor(1))));
      expect(await object.rpcSync().getValue()).toBe(1);
      const afterwards = [sum, two, doubled, object].map((rref: RRef<unknown>) => rref.confirmed());
      expect(afterwards.every((future) => future instanceof Promise)).toBe(true);
      await Promise.all(afterwards);
    }));

  it('takes what this worker owns, as calls do', () =>
    onAll(4, async (at) => {
      const own = createRRef(40);
      expect(await rpcSync(at('w1'), addRRefToNumber, [own, 50])).toBe(90);
      expect(await rpcAsync(at('w1'), addRRefToNumber, [own, 50])).toBe(90);
      expect(await remote(at('w1'), addRRefToNumber, [own, 50]).toHere()).toBe(90);
    }));
});

describe('owners', () => {
  it('are equal when they are one worker', () =>
    onAll(4, async (at) => {
      const [a, b] = [createRRef(40), createRRef(50)];
      const [c, d] = [remote(at('w1'), add, [ones([1]), 1]), remote(at('w1'), add, [ones([1]), 1])];
      const sum = shown(ones([1]).add(1));
      expect([shown(await c.toHere()), shown(await d.toHere())]).toEqual([sum, sum]);
      expect(a.owner()).not.toEqual(23);
      expect(c.owner()).toEqual(d.owner());
      expect(a.owner()).not.toEqual(c.owner());
      expect(c.owner()).toEqual(c.owner());
      expect(a.owner()).toEqual(a.owner());
      expect(a.owner()).toEqual(b.owner());
      expect(a.owner()).toEqual(getWorkerInfo());
      expect(c.owner()).toEqual(getWorkerInfo(at('w1')));
      const byOwner = new Map<number, unknown>([
        [a.owner().id, a],
        [c.owner().id, c],
      ]);
      for (const own of [a, b]) expect(byOwner.get(own.owner().id)).toBe(a);
      for (const other of [c, d]) expect(byOwner.get(other.owner().id)).toBe(c);
      expect(byOwner.size).toBe(2);
    }));

  it('keep what functions run there have changed, called in all three ways', () =>
    onAll(4, async (at) => {
      const rref = remote(at('w1'), MyClass, [10]);
      await rpcSync(rref.owner(), increment, [rref, 2]);
      await rpcAsync(rref.owner(), increment, [rref, 5]);
      await remote(rref.owner(), increment, [rref, 7]).toHere();
      expect(await rpcSync(at('w1'), valueOf, [rref])).toBe(24);
    }));

  it('give lists of what they own, which others change there', () =>
    onAll(4, async (at) => {
      const rrefs = await rpcSync(at('w1'), listOfRRefs, [[1, 2, 3]]);
      for (const rref of rrefs) await rpcSync(rref.owner(), increment, [rref, 10]);
      expect(await Promise.all(rrefs.map((rref) => rpcSync(rref.owner(), valueOf, [rref])))).toEqual([11, 12, 13]);
    }));
});

it('an RRef travels in calls only', () =>
  onAll(4, async () => {
    const rref = createRRef(1);
    expect(() => encodeValue(rref)).toThrow(
      errorMatching(TypeError, {
        message:
          /^cannot send an instance of class RRefHandle: RRefs travel in arguments and results of calls only, of an agent with the extension rrefs\(\)$/,
      }),
    );
    const carrier = sessionOf(currentAgent()).values[0];
    expect(() => carrier?.encode(rref, getWorkerInfo())).toThrow(
      errorMatching(RpcError, {
        code: 'failed-precondition',
        message: 'Can not pickle rref in python pickler, rref can only be pickled when using RPC',
      }),
    );
    // JSON says what it is; nothing can be made of it again.
    expect(JSON.stringify(rref)).toBe(JSON.stringify(String(rref)));
  }));
