/** @file Handlers in a scope: what they got, made and answered is freed when the answer is out, not when the collector comes. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { add, keep, memory, ones, rpcName, scope, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { allGather, processGroup, rpcAsync, rpcClass, rpcFunction, rpcStream, rpcSync } from '../src/index.ts';
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

  it.each([4, 30_000])(
    'leaves nothing of a call with a key but the outcome of %i floats, until that is forgotten',
    async (size) => {
      const x = ones([size]);
      const agents = await startCluster(2);
      const { tensors } = memory();
      await agents.at(0).run(async () => {
        for (let i = 0; i < 6; i++) {
          const options = { idempotencyKey: `key-${i >> 1}` };
          const [same, tripled] = [await rpcSync('w1', echo, [x], options), await rpcSync('w1', sum, [x], options)];
          expect([last(same), last(tripled)]).toEqual([1, 3]);
          same.dispose();
          tripled.dispose();
        }
      });
      await until(() => memory().tensors <= tensors + 6);
      await agents.close();
      await until(() => memory().tensors <= tensors);
    },
  );

  it('leaves what it kept and what was there before', async () => {
    const x = ones([30_000]);
    await cluster.at(0).run(async () => {
      await rpcSync('w1', keeps, [x]);
      for (let i = 0; i < 3; i++) (await rpcSync('w1', known)).dispose();
    });
    expect([kept, [table]].map(([t]) => last(t as Tensor))).toEqual([1, 1]);
  });
});

/** What the streams below were given. */
const given: Tensor[] = [];
let ended = 0;
/** Ways to give a stream, each item of which needs the argument; the last is the argument. */
class Streams {
  static readonly [rpcName] = 'scoped/Streams';
  static *sync(x: Tensor): Generator<Tensor> {
    given.push(x);
    try {
      yield x.add(1);
      yield x;
    } finally {
      ended++;
    }
  }
  static async *async(x: Tensor): AsyncGenerator<Tensor> {
    await Promise.resolve();
    yield* Streams.sync(x);
  }
  static async later(x: Tensor): Promise<Generator<Tensor>> {
    await Promise.resolve();
    return Streams.sync(x);
  }
  static iterable(x: Tensor): Iterable<Tensor> {
    const doubled = x.mul(2); // needed by what begins when this has returned
    given.push(x, doubled);
    return { [Symbol.iterator]: () => [0, 1].map((i) => (i === 0 ? doubled : x)).values() };
  }
  static list(x: Tensor): Tensor[] {
    given.push(x);
    return [x.add(1), x];
  }
  static *fails(x: Tensor): Generator<Tensor> {
    given.push(x);
    yield x.add(1);
    throw new RangeError(`no ${x.size}`);
  }
  static *keeps(x: Tensor): Generator<Tensor> {
    yield x.add(1);
    kept.push(keep(x));
  }
}
const ways = ['sync', 'async', 'later', 'iterable', 'list'] as const;
const published = rpcClass(Streams, { methods: [], statics: [...ways, 'fails', 'keeps'], scope: true });
const streamOf = (to: string, way: (typeof ways)[number], x: Tensor): AsyncGenerator<Tensor, void, void> =>
  rpcStream(to, published[way] as typeof published.sync, [x]);

describe.each(['w0', 'w1'])('a stream of a handler in a scope, on %s', (to) => {
  const whenFreed = (): Promise<void> => until(() => given.length > 0 && given.every(({ disposed }) => disposed));
  beforeEach(() => void given.splice(0));

  it.each([4, 30_000])('has its arguments, of %i floats, until it is over', async (size) => {
    const x = ones([size]);
    for (const way of ways) {
      const items: Tensor[] = [];
      for await (const item of cluster.at(0).run(() => streamOf(to, way, x))) items.push(item);
      expect(items.map(last)).toEqual([2, 1]);
      await whenFreed();
      given.splice(0);
    }
  });

  it('lets go of them when its reader leaves or it fails, and not of what it kept', async () => {
    const x = ones([4]);
    const before = ended;
    for (const way of ['sync', 'async', 'later'] as const) {
      for await (const item of cluster.at(0).run(() => streamOf(to, way, x))) {
        expect(last(item)).toBe(2);
        break;
      }
      await whenFreed();
      given.splice(0);
    }
    expect(ended).toBe(before + 3);

    const failing = cluster.at(0).run(() => rpcStream(to, published.fails, [x]));
    expect(last((await failing.next()).value as Tensor)).toBe(2);
    await expect(failing.next()).rejects.toThrow('no 4');
    await whenFreed();

    kept.splice(0);
    for await (const item of cluster.at(0).run(() => rpcStream(to, published.keeps, [x]))) expect(last(item)).toBe(2);
    await until(() => kept.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(kept.map(last)).toEqual([1]);
  });
});

const several = rpcFunction('scoped/several', (x: Tensor) => ({
  list: [x, x.mul(2)],
  map: new Map([['x', x.mul(3)]]),
}));
const sparse = rpcFunction('scoped/sparse', () => sparseCooTensor(tensor([[0, 2]]).to('int64'), tensor([1, 2]), [3]));
const items = rpcFunction('scoped/items', function* (x: Tensor) {
  for (let i = 0; i < 3; i++) yield x.mul(i);
});
let release = (): void => undefined;
const slow = rpcFunction('scoped/slow', async (x: Tensor) => {
  await new Promise<void>((resolve) => (release = resolve));
  return x;
});

describe('a caller in a scope', () => {
  const x = ones([2_000]);
  const at = <T>(fn: () => T): T => cluster.at(0).run(fn);
  /** What was seen of the tensors inside: they live there, and are gone afterwards. */
  async function goneAfter(ask: () => Promise<readonly Tensor[]>): Promise<void> {
    const seen: Tensor[] = [];
    await at(() =>
      scope(async () => {
        seen.push(...(await ask()));
        expect(seen.map(({ disposed }) => disposed)).toEqual(seen.map(() => false));
      }),
    );
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.map(({ disposed }) => disposed)).toEqual(seen.map(() => true));
  }

  it('has what a call answers until the scope ends', async () => {
    await goneAfter(async () => [await rpcSync('w1', echo, [x]), await rpcAsync('w0', echo, [x])]);
  });

  it('has the tensors inside of an answer, sparse ones and their parts among them', async () => {
    await goneAfter(async () => {
      const { list, map } = await rpcSync('w1', several, [x]);
      const spare = await rpcSync('w1', sparse);
      const { indices, values } = spare.sparse as unknown as { indices: Tensor; values: Tensor };
      return [...list, map.get('x') as Tensor, spare, indices, values];
    });
  });

  it('has what a stream gives, and what a group makes of its tensors', async () => {
    await goneAfter(async () => {
      const given: Tensor[] = [];
      for await (const item of rpcStream('w1', items, [x])) given.push(item);
      return given;
    });
    for (const size of [4, 100_000]) {
      const other = cluster.at(1).run(() => processGroup().allReduce(ones([size])));
      await goneAfter(async () => [await processGroup().allReduce(ones([size]))]);
      expect(last(await other)).toBe(2);
      const there = cluster.at(1).run(() => allGather(ones([size])));
      await goneAfter(async () => [...(await allGather(ones([size]))).values()]);
      expect([...(await there).values()].map(last)).toEqual([1, 1]);
    }
  });

  it('keeps what the scope gives or was told to keep', async () => {
    const [given, held] = await at(async () => {
      let held: Tensor | undefined;
      const given = await scope(async () => {
        held = keep(await rpcSync('w1', echo, [x]));
        return scope(() => rpcSync('w1', echo, [x]));
      });
      return [given, held as Tensor];
    });
    expect([given, held].map(last)).toEqual([1, 1]);
  });

  it("has what comes after the end of its scope, which is nobody else's", async () => {
    let late: Promise<Tensor> | undefined;
    await at(() =>
      scope(async () => {
        late = rpcAsync('w1', slow, [x]);
        await rpcSync('w1', echo, [x]);
      }),
    );
    release();
    expect(last(await (late as Promise<Tensor>))).toBe(1);
  });

  it('gives what a handler in a scope was answered, and frees it when that has left', async () => {
    const relay = rpcFunction('scoped/relay', (y: Tensor) => rpcSync('w0', sum, [y]), scoped);
    await at(async () => {
      expect(last(await rpcSync('w1', relay, [x]))).toBe(3);
      const before = memory().storages;
      for (let i = 0; i < 10; i++) (await rpcSync('w1', relay, [x])).dispose();
      await until(() => memory().storages <= before);
    });
  });
});

/** A value that names a tensor which every worker has, and holds others that travel, or are made when it arrives. */
class Batch {
  readonly table: Tensor;
  readonly sent: Tensor;
  readonly made: Tensor;
  constructor(sent: Tensor, made: Tensor) {
    this.table = table;
    this.sent = sent;
    this.made = made;
  }
}
registerValueType({
  name: 'scoped/Batch',
  match: Batch,
  encode: ({ sent }) => sent,
  decode: (sent) => new Batch(sent as Tensor, (sent as Tensor).add(1)),
});
const batches: Batch[] = [];
const received = rpcFunction('scoped/received', (batch: Batch) => void batches.push(batch), scoped);
const passed = rpcFunction('scoped/passed', (batch: Batch) => [batch]);
const passedOn = rpcFunction('scoped/passed_on', function* (batch: Batch) {
  yield [batch];
});

describe.each(['w0', 'w1'])('what a value type finds when it is decoded, from %s', (to) => {
  const batch = new Batch(ones([4]), ones([4]));
  const states = (): boolean[][] =>
    batches.splice(0).map(({ table, sent, made }) => [table, sent, made].map((t) => t.disposed));

  it('is no part of what a scope around the call frees', async () => {
    await cluster.at(0).run(() =>
      scope(async () => {
        batches.push(...(await rpcSync(to, passed, [batch])));
        for await (const item of rpcStream(to, passedOn, [batch])) batches.push(...item);
        expect(batches.map(({ made }) => last(made))).toEqual([2, 2]);
      }),
    );
    expect(states()).toEqual([0, 1].map(() => [false, true, true]));
  });

  it('is no part of what a handler in a scope frees', async () => {
    await cluster.at(0).run(async () => {
      await rpcSync(to, received, [batch]);
      await rpcSync(to, received, [batch], { idempotencyKey: `found-${to}` });
    });
    expect(states()).toEqual([0, 1].map(() => [false, true, true]));
  });
});
