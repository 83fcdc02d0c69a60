/** @file RRefs among workers of torch groups, without torch: creation, sharing in all four cases, proxies, failures, empty tables. */
import { createAgent, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, isRRef, remote, rrefs, type RRef } from '@backwire/rref';
import { add, nn, ones, rpcName, scope, tensor, type Tensor } from '@backwire/tensor';
import { Random } from '@backwire/testing';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { py } from '../src/py.ts';
import { saveTorchFile } from '../src/file/save.ts';
import { group, leave } from './group.ts';

class Counter {
  static readonly [rpcName] = 'rrefs.Counter';
  count: number;
  constructor(start = 0) {
    if (start < 0) throw new RangeError('below zero');
    this.count = start;
  }
  add(n = 1): number {
    return (this.count += n);
  }
  secret(): string {
    return 'nobody calls this';
  }
}
rpcClass(Counter, { methods: ['add'] });
const fetch = rpcFunction('rrefs.fetch', (rref: RRef<number>) => rref.toHere());
const giveTensor = rpcFunction('rrefs.give_tensor', (rref: RRef<Tensor>) => rref.toHere());
const make = rpcFunction('rrefs.make', (value: number) => createRRef(value));
const pass = rpcFunction('rrefs.pass', (to: string, rref: RRef<number>) => rpcSync(to, fetch, [rref]));
const giveBack = rpcFunction('rrefs.give_back', (rref: RRef<number>) => rref);
const kept: RRef<number>[] = [];
const keep = rpcFunction('rrefs.keep', (rref: RRef<number>) => void kept.push(rref));
const slow = rpcFunction('rrefs.slow', async (value: number) => {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return value;
});

let agents: Agent[];
let me: Agent;
beforeAll(async () => {
  agents = await group(3);
  me = agents[0] as Agent;
}, 60_000);
afterAll(() => leave(agents));

/** Everybody lets go of what the collector would, sooner or later. */
afterEach(async () => {
  for (const rref of kept.splice(0)) rref.dispose();
  await vi.waitFor(() => {
    for (const agent of agents)
      for (const fork of agent.rrefs.worker.users.all()) agent.rrefs.worker.users.release(fork);
    expect(agents.map((agent) => agent.rrefs.debugInfo())).toEqual(
      agents.map(() => ({
        num_owner_rrefs: 0,
        num_forks: 0,
        num_pending_users: 0,
        num_pending_children: 0,
        num_pending_futures: 0,
      })),
    );
  }, 20_000);
});

const inside = <T>(fn: () => T): T => me.run(fn);

it('hears others let go while it waits for that', async () => {
  const rref = inside(() => remote('n1', slow, [7]));
  await rref.confirmed();
  const owner = agents[1] as Agent;
  let released = false;
  setTimeout(() => {
    released = true;
    rref.dispose();
  }, 50);
  await owner.settle(5_000);
  expect(released).toBe(true);
  expect(owner.rrefs.debugInfo()).toMatchObject({ num_owner_rrefs: 0, num_forks: 0 });
});

it('creates values on others and here, and fetches them', async () => {
  for (const to of ['n1', 'n0']) {
    const rref = inside(() => remote(to, slow, [7]));
    expect(isRRef(rref)).toBe(true);
    expect(rref.isOwner()).toBe(to === 'n0');
    expect(rref.ownerName()).toBe(to);
    expect(await rref.toHere()).toBe(7);
    await rref.confirmed();
    expect(rref.confirmedByOwner()).toBe(true);
    rref.dispose();
  }
});

it('keeps what was created in a scope when that has ended, wherever it is, and frees what was fetched there', async () => {
  const made = rpcFunction('rrefs.made_ones', (n: number) => ones([n]));
  for (const to of ['n1', 'n0']) {
    const seen: Tensor[] = [];
    const { rrefs } = await inside(() =>
      scope(async () => {
        const first = remote(to, made, [4]);
        const rrefs = [first, first.remote().mul(3), remote(to, add, [ones([4]), 1])];
        for (const rref of rrefs) seen.push(await rref.toHere());
        seen.push(await rpcSync(to, made, [4]), await first.rpcSync().add(1));
        expect(seen.map(({ disposed }) => disposed)).toEqual(seen.map(() => false));
        return { rrefs };
      }),
    );
    expect(seen.map(({ disposed }) => disposed)).toEqual(seen.map(() => true));
    const values = await Promise.all(rrefs.map((rref) => rref.toHere()));
    expect(values.map((value) => value.toArray())).toEqual([1, 3, 2].map((each) => [each, each, each, each]));
    for (const rref of rrefs) rref.dispose();
  }
});

it('keeps what drawn programs create in scopes inside of scopes, by whatever kind of call, on whichever worker', async () => {
  const made = rpcFunction('rrefs.drawn', (x: Tensor) => x.add(1), { scope: true });
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    const on = (): string => random.pick(['n0', 'n1', 'n2']);
    const create = async (depth: number): Promise<{ rref: RRef<Tensor> }> => {
      if (depth > 0)
        return scope(async () => {
          ones([2]); // freed at the end
          return create(depth - 1);
        });
      const x = ones([2]);
      const first: RRef<Tensor> = random.chance(0.5) ? remote(on(), made, [x]) : remote(on(), add, [x, 1]);
      const rref = random.chance(0.3) ? first.remote().add(0) : first;
      if (random.chance(0.5)) await rref.confirmed();
      const seen = await rref.toHere();
      expect(seen.toArray()).toEqual([2, 2]);
      if (rref !== first) first.dispose();
      return { rref };
    };
    const { rref } = await inside(() => create(random.int(0, 4)));
    expect((await rref.toHere()).toArray(), `seed ${seed}`).toEqual([2, 2]);
    const user = inside(() => rpcSync(on(), giveTensor, [rref]));
    expect((await user).toArray(), `seed ${seed}`).toEqual([2, 2]);
    rref.dispose();
  }
});

it('leaves results of operators where they are made', async () => {
  const x = tensor([1, 2]);
  const rref: RRef<Tensor> = inside(() => remote('n1', add, [x, x]));
  expect((await rref.toHere()).toArray()).toEqual([2, 4]);
  expect(await rref.typeName()).toBe('Tensor');
});

it('asks for the name of a type once, also when ten ask at once', async () => {
  const rref = inside(() => remote('n1', slow, [7]));
  const sent = vi.spyOn(me.caller, 'call');
  const asked = inside(() => Array.from({ length: 10 }, () => rref.typeName()));
  for (const each of asked) expect(each).toBe(asked[0]);
  expect(new Set(await Promise.all(asked))).toEqual(new Set(['int']));
  expect(await inside(() => rref.typeName())).toBe('int');
  expect(await rref.typeName({ timeoutMs: 1 })).toBe('int');
  expect(sent).toHaveBeenCalledTimes(1);
  sent.mockRestore();
  rref.dispose();
  await expect(rref.typeName()).rejects.toMatchObject({ code: 'rref-released' });
});

it('shares: owner to user, user to owner, user to user, and owner to user to owner', async () => {
  const mine = inside(() => createRRef(5));
  expect(await inside(() => rpcSync('n1', fetch, [mine]))).toBe(5);
  const theirs = inside(() => remote('n1', slow, [6]));
  expect(await inside(() => rpcSync('n1', fetch, [theirs]))).toBe(6);
  expect(await inside(() => rpcSync('n2', fetch, [theirs]))).toBe(6);
  expect(await inside(() => rpcSync('n1', pass, ['n2', mine]))).toBe(5);
  const back = await inside(() => rpcSync('n1', giveBack, [mine]));
  expect(back.isOwner()).toBe(true);
  expect(await back.localValue()).toBe(5);
  const made = await inside(() => rpcSync('n1', make, [8]));
  expect(made.isOwner()).toBe(false);
  expect(await made.toHere()).toBe(8);
});

it('keeps a value for a user whose own giver has let go of it', async () => {
  const rref = inside(() => remote('n1', slow, [9]));
  await inside(() => rpcSync('n2', keep, [rref]));
  rref.dispose();
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(await (kept[0] as RRef<number>).toHere()).toBe(9);
});

it('calls published methods through proxies, and leaves their results with the owner', async () => {
  for (const to of ['n1', 'n0']) {
    const counter = inside(() => remote(to, Counter, [10]));
    expect(await counter.rpcSync().add(5)).toBe(15);
    expect(await counter.rpcAsync().add()).toBe(16);
    expect(await counter.remote().add(4).toHere()).toBe(20);
    await expect((counter.rpcSync() as never as { secret(): Promise<string> }).secret()).rejects.toThrow(
      /has no attribute 'secret'/,
    );
    counter.dispose();
  }
});

class Net extends nn.Module {
  static readonly [rpcName] = 'rrefs.Net';
  readonly layer = new nn.Linear(2, 3);
  forward(x: Tensor): Tensor {
    return this.layer.forward(x);
  }
}
rpcClass(Net, { methods: ['forward'] });

it('has modules on others and here, also of classes of which Python has no form', async () => {
  for (const to of ['n1', 'n0'])
    for (const layer of inside(() => [remote(to, nn.Linear, [2, 3]), remote(to, Net)])) {
      const y = await layer.rpcSync().forward(tensor([[1, 2]]));
      expect(y.shape).toEqual([1, 3]);
      layer.dispose();
    }
});

it('fails with what the creation failed with, wherever it is used', async () => {
  const failed = inside(() => remote('n1', Counter, [-1]));
  await expect(failed.toHere()).rejects.toThrow('below zero');
  expect(await failed.toHere().catch((error: unknown) => error)).toBeInstanceOf(RangeError);
  const unknown = inside(() => remote('n1', py('os.system'), ['true']));
  await expect(unknown.toHere()).rejects.toMatchObject({ code: 'not-found' });
  await expect(unknown.confirmed()).rejects.toMatchObject({ code: 'not-found' });
  // Somebody else who had the handle before does not wait for ever either.
  const local = inside(() => remote('n0', Counter, [-1]));
  await expect(local.localValue()).rejects.toThrow('below zero');
});

it('says where a value is and what was deleted', async () => {
  const rref = inside(() => remote('n1', slow, [1]));
  await rref.toHere();
  await expect(rref.localValue()).rejects.toThrow(/can't call localValue\(\) on user/);
  rref.dispose();
  await expect(rref.toHere()).rejects.toMatchObject({ code: 'rref-released' });
});

it('goes into no file, as torch.save takes none', () => {
  const own = inside(() => createRRef(35));
  const there = inside(() => remote('n1', add, [tensor([1]), 1]));
  for (const rref of [own, there]) {
    expect(() => saveTorchFile(rref)).toThrow(new TypeError('torch.load would not read a TorchRRef'));
    expect(() => saveTorchFile({ at: [rref] })).toThrow(
      new TypeError('torch.load would not read a TorchRRef at .at[0]'),
    );
    rref.dispose();
  }
});

it('goes into no file in a group without torch either', async () => {
  const store = `memory://torch-rrefs-${process.pid}`;
  const plain = await Promise.all(
    [0, 1, 2, 3].map((rank) => createAgent({ name: `p${rank}`, rank, worldSize: 4, store, extensions: [rrefs()] })),
  );
  for (const [rank, agent] of plain.entries())
    agent.run(() => {
      for (const rref of [createRRef(35), remote(`p${(rank + 1) % 4}`, add, [tensor([1]), 1])])
        expect(() => saveTorchFile(rref)).toThrow(new TypeError('torch.load would not read a RRefHandle'));
    });
  await Promise.all(plain.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
});
