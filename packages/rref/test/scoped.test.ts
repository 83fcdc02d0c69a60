/** RRefs that scoped handlers are given: let go at the end, unless returned or kept. */
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { keep, memory, ones, rpcName, scope, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { agent, counters, eventually, isEmpty, withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';

const scoped = { scope: true };
const stored: RRef<Tensor>[] = [];
const sum = rpcFunction(
  'scoped-rrefs/sum',
  async (given: { list: RRef<Tensor>[] }) => (await Promise.all(given.list.map((r) => r.toHere()))).length,
  scoped,
);
const fails = rpcFunction(
  'scoped-rrefs/fails',
  (_rref: RRef<Tensor>): number => {
    throw new RangeError('no');
  },
  scoped,
);
const same = rpcFunction('scoped-rrefs/same', (rref: RRef<Tensor>) => [rref], scoped);
const store = rpcFunction('scoped-rrefs/store', (rref: RRef<Tensor>) => void stored.push(keep(rref)), scoped);
const ones4 = rpcFunction('scoped-rrefs/ones4', () => ones([4]));
const plain = rpcFunction('scoped-rrefs/plain', (rref: RRef<Tensor>) => void stored.push(rref));

class Reader {
  static readonly [rpcName] = 'scoped-rrefs/Reader';
  async size(rref: RRef<Tensor>): Promise<number> {
    return (await rref.toHere()).size;
  }
  async *sizes(rref: RRef<Tensor>): AsyncGenerator<number> {
    yield (await rref.toHere()).size;
    yield (await rref.toHere()).size;
  }
  static echo(rref: RRef<Tensor>): RRef<Tensor> {
    return rref;
  }
}
rpcClass(Reader, { methods: ['size', 'sizes'], statics: ['echo'], scope: true });

describe('a handler in a scope', () => {
  it('lets go of the RRefs in its arguments, whether it returns or throws', () =>
    withGroup(2, async (agents) => {
      const [a, b] = [createRRef(ones([3])), remote('w1', ones4)];
      expect(await rpcSync('w1', sum, [{ list: [a, b] }])).toBe(2);
      await expect(rpcSync('w1', fails, [a])).rejects.toThrow('no');
      expect(await remote('w1', sum, [{ list: [a] }]).toHere()).toBe(1);
      await eventually(() => counters(agent(agents, 0))['num_forks'] === 0, 'all forks came home');
      b.dispose();
    }));

  it('hands over the one it returns', () =>
    withGroup(2, async (agents) => {
      const mine = createRRef(ones([3]));
      const [back] = await rpcSync('w1', same, [mine]);
      expect(await back?.localValue()).toBe(await mine.localValue());
      const there = remote('w1', same, [mine]);
      const [again] = await there.toHere();
      expect(again?.isOwner()).toBe(true);
      expect(counters(agent(agents, 0))['num_forks']).toBe(1);
      there.dispose();
    }));

  it('leaves those that were kept, as one without a scope leaves all', () =>
    withGroup(2, async (agents) => {
      const mine = createRRef(ones([3]));
      await rpcSync('w1', store, [mine]);
      await rpcSync('w1', plain, [mine]);
      await agent(agents, 1).run(async () => {
        for (const rref of stored) expect((await rref.toHere()).size).toBe(3);
      });
      expect(counters(agent(agents, 0))['num_forks']).toBe(2);
      for (const rref of stored.splice(0)) rref.dispose();
      await eventually(() => isEmpty(agent(agents, 0)), 'all forks came home');
    }));

  it('may be a method, of which a generator has its arguments until it is over', () =>
    withGroup(2, async (agents) => {
      const mine = createRRef(ones([3]));
      const reader = remote('w1', Reader);
      expect(await reader.rpcSync().size(mine)).toBe(3);
      const sizes: number[] = [];
      for await (const size of reader.rpcSync().sizes(mine)) sizes.push(size);
      expect(sizes).toEqual([3, 3]);
      await eventually(() => counters(agent(agents, 0))['num_forks'] === 0, 'all forks came home');
      // Left, and never begun.
      for await (const size of reader.rpcSync().sizes(mine)) {
        expect(size).toBe(3);
        break;
      }
      await reader.rpcSync().sizes(mine).return();
      await eventually(() => isEmpty(agent(agents, 0)), 'all forks came home');
      reader.dispose();
    }));

  it('is the only scope that takes RRefs from outside', () =>
    withGroup(2, async () => {
      const mine = remote('w1', ones4);
      expect(await scope(async () => (await mine.toHere()).size)).toBe(4);
      expect((await mine.toHere()).size).toBe(4);
      mine.dispose();
    }));
});

class Scaler {
  static readonly [rpcName] = 'scoped-rrefs/Scaler';
  readonly by = ones([3]);
  scale(x: Tensor): Tensor {
    return x.mul(this.by);
  }
  async both(x: Tensor): Promise<Tensor[]> {
    await Promise.resolve();
    return [x, x.mul(this.by), this.by];
  }
  fails(x: Tensor): number {
    throw new RangeError(`no ${x.mul(this.by).size}`);
  }
  static twice(x: Tensor): { map: Map<string, Tensor> } {
    return { map: new Map([['twice', x.mul(2)]]) };
  }
}
rpcClass(Scaler, { methods: ['scale', 'both', 'fails'], statics: ['twice'], scope: true });

describe('a method of a class in a scope', () => {
  it('leaves nothing of a call when the answer is sent, but what an RRef keeps and what was there before', () =>
    withGroup(2, async () => {
      const x = ones([3]);
      for (const to of ['w0', 'w1']) {
        const scaler = remote(to, Scaler);
        const call = (): Promise<void> =>
          scope(async () => {
            expect((await scaler.rpcSync().scale(x)).toArray()).toEqual([1, 1, 1]);
            expect((await scaler.rpcAsync().both(x)).map((t) => t.size)).toEqual([3, 3, 3]);
            await expect(scaler.rpcSync().fails(x)).rejects.toThrow('no 3');
            const statics = scaler.rpcSync() as unknown as {
              twice(x: Tensor): Promise<ReturnType<typeof Scaler.twice>>;
            };
            expect((await statics.twice(x)).map.get('twice')?.toArray()).toEqual([2, 2, 2]);
          });
        await call();
        const { tensors } = memory();
        for (let i = 0; i < 5; i++) await call();
        await eventually(() => memory().tensors <= tensors, 'all is freed');
        const there = scaler.remote().scale(x);
        await there.confirmed();
        expect((await there.toHere()).toArray()).toEqual([1, 1, 1]);
        expect((await scaler.rpcSync().scale(x)).toArray()).toEqual([1, 1, 1]);
        there.dispose();
        scaler.dispose();
      }
    }));
});

/** A value that every worker has, and that travels by its name. */
class Table {
  readonly data = ones([2]);
}
const table = new Table();
registerValueType({ name: 'scoped-rrefs/Table', match: Table, encode: () => 'it', decode: () => table });
const findTable = rpcFunction('scoped-rrefs/find', () => [table]);
class Sizes {
  static readonly [rpcName] = 'scoped-rrefs/Sizes';
  of({ data }: Table): number {
    return data.size;
  }
}
rpcClass(Sizes, { methods: ['of'], scope: true });

describe('what a value type finds when it is decoded', () => {
  it('is neither that of who fetches it nor that of a method that gets it', () =>
    withGroup(2, async () => {
      for (const to of ['w0', 'w1']) {
        const [found, sizes] = [remote(to, findTable), remote(to, Sizes)];
        expect(await scope(async () => (await found.toHere()).length)).toBe(1);
        expect(await sizes.rpcSync().of(table)).toBe(2);
        expect(table.data.disposed).toBe(false);
        found.dispose();
        sizes.dispose();
      }
    }));
});

describe('a caller in a scope', () => {
  it('has what it fetches, and what methods answer, until the scope ends', () =>
    withGroup(2, async (agents) => {
      const [here, there] = [createRRef(ones([3])), remote('w1', ones4)];
      const seen = await scope(async () => {
        const all = [await here.toHere(), await there.toHere(), await there.rpcSync().add(1)];
        expect(all.map((t) => t.toArray())).toEqual([
          [1, 1, 1],
          [1, 1, 1, 1],
          [2, 2, 2, 2],
        ]);
        return { disposed: () => all.map(({ disposed }) => disposed) };
      });
      expect(seen.disposed()).toEqual([true, true, true]);
      // What the references hold is theirs.
      expect((await here.localValue()).toArray()).toEqual([1, 1, 1]);
      expect((await there.toHere()).toArray()).toEqual([1, 1, 1, 1]);
      there.dispose();
      await eventually(() => isEmpty(agent(agents, 0)), 'all references are let go');
    }));
});
