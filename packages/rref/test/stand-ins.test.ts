/** @file RRefs of values that stand for others, outside of the group: what is asked of them is asked there, and the end is told. */
import { errorMatching } from '@backwire/testing';
import { currentAgent, rpcFunction, RpcError, rpcSync, WorkerInfo } from '@backwire/rpc';
import { tensor, type Tensor } from '@backwire/tensor';
import { afterEach, expect, it } from 'vitest';
import { agent, counters, eventually, isEmpty, startGroup, withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';
import { makesStandIns, rrefsToSend, StandIn, standInOf, type Within } from '../src/internal.ts';

interface Far {
  double(x: number): number;
  wait(): Promise<void>;
  fail(): never;
}

/** Those that nobody has released. */
const there = new Set<Mirror>();
const released: string[] = [];
let lastWithin: Within | undefined;

/** Stands for an object that is called `local`. */
class Mirror extends StandIn {
  readonly local: string;

  constructor(local: string) {
    super();
    this.local = local;
    there.add(this);
  }

  async fetch(within: Within): Promise<unknown> {
    lastWithin = within;
    return `copy of ${this.local}`;
  }

  async typeName(): Promise<string> {
    return `Far${this.local}`;
  }

  async call(method: string, args: readonly unknown[], within: Within): Promise<unknown> {
    lastWithin = within;
    if (method === 'double') return 2 * (args[0] as number);
    if (method === 'fail')
      throw new RpcError('peer-died', "worker 'far' died", { executed: 'maybe', peer: new WorkerInfo('far', 9) });
    if (method === 'wait')
      return new Promise((_, reject) => within.signal?.addEventListener('abort', () => reject(within.signal?.reason)));
    throw new TypeError(`no ${method}`);
  }

  async callAndKeep(method: string, args: readonly unknown[], within: Within): Promise<StandIn> {
    return new Mirror(`${this.local}.${method} = ${String(await this.call(method, args, within))}`);
  }

  release(): void {
    there.delete(this);
    released.push(this.local);
  }
}

afterEach(() => {
  const left = [...there].map(({ local }) => local);
  there.clear();
  released.length = 0;
  expect(left).toEqual([]);
});

const make = rpcFunction('stand-ins/make', (name: string): unknown => new Mirror(name));
const makeLater = rpcFunction('stand-ins/make-later', async (name: string): Promise<unknown> => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return new Mirror(name);
});
makesStandIns(make);
const lend = rpcFunction('stand-ins/lend', (name: string) => rrefsToSend(currentAgent())(new Mirror(name)));
const fetch = rpcFunction('stand-ins/fetch', (rref: RRef<unknown>) => rref.toHere(), { scope: true });
const known = rpcFunction(
  'stand-ins/known',
  async (rref: RRef<unknown>) => {
    const found = await standInOf(rref);
    return found instanceof Mirror ? found.local : undefined;
  },
  { scope: true },
);
/** By worker: they are all in this process. */
const kept = new Map<string, RRef<unknown>>();
const keep = rpcFunction('stand-ins/keep', (rref: RRef<unknown>) => void kept.set(currentAgent().name, rref));
const keepLarge = rpcFunction('stand-ins/keep-large', (_large: Tensor, rref: RRef<unknown>) => keep(rref));
const letGo = rpcFunction('stand-ins/let-go', () => kept.get(currentAgent().name)?.dispose());
const died = errorMatching(RpcError, { code: 'peer-died', executed: 'yes', message: "worker 'far' died" });

it.each(['w1', 'w0'])('is used where it stands for something, from w0 with the stand-in on %s', (owner) =>
  withGroup(3, async () => {
    const rref = remote(owner, make, ['a']) as RRef<Far>;
    expect(await rref.toHere()).toBe('copy of a');
    expect(await rref.typeName()).toBe('Fara');
    expect(await rref.rpcSync().double(4)).toBe(8);
    expect(await rpcSync('w2', fetch, [rref])).toBe('copy of a');
    await expect(rref.rpcSync().fail()).rejects.toThrow(owner === 'w0' ? /worker 'far' died/ : died);
    const result = rref.remote().double(5);
    expect(await result.toHere()).toBe('copy of a.double = 10');
    if (owner === 'w0') expect(await rref.localValue()).toBe('a');
    await expect((rref as unknown as RRef<Tensor>).backward(1n)).rejects.toThrow(
      /outside of this group: no backward pass goes there|has no extension 'dist-autograd'/,
    );
    expect(released).toEqual([]);
    result.dispose();
    await eventually(() => released.length === 1, 'the result is released');
    rref.dispose();
    await eventually(() => released.length === 2, 'the object is released');
  }),
);

it('comes back to its owner as what stands there, and from a call as an RRef that the callers hold', () =>
  withGroup(3, async (agents) => {
    const rref = await rpcSync('w1', lend, ['b']);
    expect(rref.ownerName()).toBe('w1');
    expect(await rref.toHere()).toBe('copy of b');
    expect(await rpcSync('w1', known, [rref])).toBe('b');
    expect(await rpcSync('w2', known, [rref])).toBeUndefined();
    const plain = createRRef(5);
    expect(await rpcSync('w0', known, [plain])).toBeUndefined();
    plain.dispose();
    expect(released).toEqual([]);
    rref.dispose();
    await eventually(() => released.length === 1, 'it is released');
    expect(isEmpty(agent(agents, 1))).toBe(true);
  }));

it('is released when nobody refers to it, its owner included, and not before', () =>
  withGroup(3, async (agents) => {
    const rref = remote('w1', make, ['c']);
    await rpcSync('w2', keep, [rref]);
    rref.dispose();
    await eventually(() => isEmpty(agent(agents, 0)), 'w0 has let go');
    expect(released).toEqual([]);
    const again = remote('w1', make, ['d']);
    await rpcSync('w1', keep, [again]);
    again.dispose();
    await rpcSync('w2', letGo);
    await eventually(() => released.length === 1, 'c is released');
    await eventually(() => counters(agent(agents, 1))['num_owner_rrefs'] === 0, 'nobody else has d');
    expect(released).toEqual(['c']);
    await rpcSync('w1', letGo);
    await eventually(() => released.length === 2, 'd is released');
    // The very call that hands it over is the last thing that its sender does with it, and its tensor is under way for long.
    const last = remote('w1', make, ['e']);
    await last.confirmed();
    const call = rpcSync('w1', keepLarge, [tensor(new Float32Array(1 << 22)), last]);
    last.dispose();
    await call;
    expect(await agent(agents, 1).run(() => (kept.get('w1') as RRef<unknown>).toHere())).toBe('copy of e');
    await rpcSync('w1', letGo);
    await eventually(() => released.length === 3, 'e is released');
  }));

it('is released at once when it is made too late, or its owner leaves', async () => {
  await withGroup(2, async () => {
    const rref = remote('w1', makeLater, ['f']);
    rref.dispose();
    await eventually(() => released.length === 1, 'f is released');
  });
  const agents = await startGroup(2);
  await agent(agents, 0).run(async () => {
    await remote('w1', make, ['g']).confirmed();
    const late = remote('w1', makeLater, ['h']);
    await new Promise((resolve) => setTimeout(resolve, 10));
    await agent(agents, 1).shutdown({ graceful: false });
    await expect(late.toHere()).rejects.toThrow();
  });
  await eventually(() => released.length === 3, 'g and h are released');
  await agent(agents, 0).shutdown({ graceful: false });
});

it('is asked within the limits of the call, and hears when nobody waits any more', () =>
  withGroup(2, async () => {
    const rref = remote('w1', make, ['i']) as RRef<Far>;
    await rref.toHere({ timeoutMs: 5_000 });
    expect(lastWithin?.timeoutMs).toBeGreaterThan(4_000);
    expect(lastWithin?.timeoutMs).toBeLessThanOrEqual(5_000);
    await rref.rpcSync({ timeoutMs: 0 }).double(1);
    expect(lastWithin?.timeoutMs).toBe(0);
    const controller = new AbortController();
    const waiting = rref.rpcSync({ signal: controller.signal }).wait();
    await eventually(() => lastWithin?.timeoutMs !== 0, 'it waits');
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'cancelled' });
    await expect.poll(() => lastWithin?.signal?.aborted).toBe(true);
    rref.dispose();
    await eventually(() => released.length === 1, 'it is released');
  }));

it('has methods that are served where what makes it is', () =>
  withGroup(
    2,
    async () => {
      const rref = remote('w1', make, ['j']) as RRef<Far>;
      expect(await rref.rpcSync().double(3)).toBe(6);
      rref.dispose();
      const other = remote('w1', makeLater, ['k']) as RRef<Far>;
      await expect(other.toHere()).rejects.toMatchObject({ code: 'permission-denied' });
      await eventually(() => released.length === 1, 'it is released');
    },
    { serve: [make], builtins: false },
  ));

it('has none where nothing is served that has', () =>
  withGroup(
    2,
    async () => {
      const rref = remote('w1', makeLater, ['l']) as RRef<Far>;
      expect(await rref.toHere()).toBe('copy of l');
      await expect(rref.rpcSync().double(3)).rejects.toMatchObject({ code: 'permission-denied' });
      rref.dispose();
      await eventually(() => released.length === 1, 'it is released');
    },
    { serve: [makeLater], builtins: false },
  ));
