/** @file Remote references and distributed autograd in a group whose members join, leave and come back. */
import { randomUUID } from 'node:crypto';
import { backward, context, getGradients } from '@backwire/dist-autograd';
import {
  createAgent,
  remote,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcName,
  rpcSync,
  type RpcAgent,
  type RRef,
  tensor,
  type Tensor,
} from 'backwire';
import { afterEach, expect, it, vi } from 'vitest';

class Counter {
  static readonly [rpcName] = 'changing/Counter';
  private count = 0;
  add(by: number): number {
    return (this.count += by);
  }
}
rpcClass(Counter, { methods: ['add'] });
const square = rpcFunction('changing/square', (x: Tensor) => x.mul(x));
/** Goes on to another worker, so that a pass crosses both. */
const squareVia = rpcFunction('changing/via', async (to: string, x: Tensor) => (await rpcSync(to, square, [x])).mul(2));
const addTo = rpcFunction('changing/add', (counter: RRef<Counter>, by: number) => counter.rpcSync().add(by));

const open = new Set<RpcAgent>();
let store: string;
async function join(name: string): Promise<RpcAgent> {
  store ??= `memory://${randomUUID()}`;
  const agent = await createAgent({ name, membership: 'dynamic', store, initTimeoutMs: 20_000 });
  open.add(agent);
  return agent;
}
async function leave(agent: RpcAgent): Promise<void> {
  open.delete(agent);
  // An owner waits so long for those that still hold what it owns.
  await agent.shutdown({ timeoutMs: 1_000 });
}
afterEach(async () => {
  await Promise.all([...open].map((agent) => agent.shutdown({ graceful: false })));
  open.clear();
});
const knows = (agent: RpcAgent, peers: number): Promise<void> =>
  vi.waitFor(() => expect(agent.debugInfo()['agent.peers']).toBe(peers), { timeout: 10_000 });
const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'ok',
    (error: unknown) => rpcInfo(error)?.code,
  );

it(
  'references reach newcomers, outlive users that leave, and fail by name when their owner leaves',
  { timeout: 60_000 },
  async () => {
    const a = await join('a');
    const b = await join('b');
    await knows(a, 1);
    const counter = a.run(() => remote('b', Counter));
    expect(await a.run(() => counter.rpcSync().add(1))).toBe(1);
    // A newcomer is handed the reference of a worker it has never met.
    const c = await join('c');
    await Promise.all([knows(a, 2), knows(b, 2)]);
    expect(await a.run(() => rpcSync('c', addTo, [counter, 10]))).toBe(11);
    await leave(c);
    await Promise.all([knows(a, 1), knows(b, 1)]);
    expect(await a.run(() => counter.rpcSync().add(100))).toBe(111);
    // Somebody else's death and return change nothing for it.
    const again = await join('c');
    await knows(a, 2);
    expect(await a.run(() => rpcSync('c', addTo, [counter, 1]))).toBe(112);
    await leave(b);
    await knows(a, 1);
    expect(['owner-died', 'unavailable', 'not-found']).toContain(await codeOf(a.run(() => counter.rpcSync().add(1))));
    // The name comes back as another worker: the old reference does not reach it, a new one does.
    await join('b');
    await knows(a, 2);
    expect(await codeOf(a.run(() => counter.rpcSync().add(1)))).not.toBe('ok');
    const fresh = a.run(() => remote('b', Counter));
    expect(await a.run(() => fresh.rpcSync().add(5))).toBe(5);
    expect(await again.run(() => rpcSync('a', square, [tensor([3])])).then((t) => t.toArray())).toEqual([9]);
  },
);

it(
  'gradients flow through newcomers; a pass through one that leaves fails, the next does without',
  { timeout: 60_000 },
  async () => {
    const a = await join('a');
    const b = await join('b');
    await knows(a, 1);
    const gradient = (via: string, to: string): Promise<unknown> =>
      a.run(() =>
        context(async (id) => {
          const x = tensor([1, 2, 3], { requiresGrad: true });
          const y = via === '' ? await rpcSync(to, square, [x]) : await rpcSync(via, squareVia, [to, x]);
          await backward(id, [y.sum()]);
          const found = getGradients(id).get(x);
          return found?.toArray();
        }),
      );
    expect(await gradient('', 'b')).toEqual([2, 4, 6]);
    const c = await join('c');
    await Promise.all([knows(a, 2), knows(b, 2)]);
    expect(await gradient('b', 'c')).toEqual([4, 8, 12]);
    expect(await gradient('c', 'b')).toEqual([4, 8, 12]);
    const failing = a.run(() =>
      context(async (id) => {
        const x = tensor([1, 2, 3], { requiresGrad: true });
        const y = await rpcSync('b', squareVia, ['c', x]);
        open.delete(c);
        await c.shutdown({ graceful: false });
        await Promise.all([knows(a, 1), knows(b, 1)]);
        await backward(id, [y.sum()]);
      }),
    );
    expect(['peer-died', 'unavailable', 'not-found', 'failed-precondition', 'cancelled']).toContain(
      await codeOf(failing),
    );
    expect(await gradient('', 'b')).toEqual([2, 4, 6]);
    await join('c');
    await Promise.all([knows(a, 2), knows(b, 2)]);
    expect(await gradient('b', 'c')).toEqual([4, 8, 12]);
    for (const agent of [a, b]) expect(agent.debugInfo()['dist_autograd.num_contexts'] ?? 0).toBe(0);
  },
);

it('a worker that gets the id of one that has just left is another to all, whatever their clocks say', async () => {
  // Within one second, and then with a clock that is behind: lives are counted by the clock, but not by it alone.
  const a = await join('a');
  const gradient = (of: RpcAgent): Promise<unknown> =>
    of.run(() =>
      context(async (id) => {
        const x = tensor([1, 2, 3], { requiresGrad: true });
        const y = await rpcSync('a', square, [x]);
        await backward(id, [y.sum()]);
        return getGradients(id).get(x)?.toArray();
      }),
    );
  const clock = vi.spyOn(Date, 'now');
  try {
    for (const [name, behindMs] of [
      ['first', 0],
      ['second', 0],
      ['third', 3_600_000],
    ] as const) {
      clock.mockReturnValue(1_790_000_000_000 - behindMs);
      const one = await join(name);
      expect(one.id).toBe(1);
      await knows(a, 1);
      expect(await gradient(one), name).toEqual([2, 4, 6]);
      const counter = one.run(() => remote('a', Counter));
      expect(await one.run(() => counter.rpcSync().add(1)), name).toBe(1);
      await leave(one);
      await knows(a, 0);
    }
  } finally {
    clock.mockRestore();
  }
});

it('a pass never takes the next life of a worker, or another with its id, for the one that took part', async () => {
  const a = await join('a');
  const b = await join('b');
  const c = await join('c');
  await Promise.all([a, b, c].map((agent) => knows(agent, 2)));
  for (const name of ['c', 'd']) {
    const [stale, fresh] = await a.run(() =>
      context(async (id) => {
        const x = tensor([1, 2, 3], { requiresGrad: true });
        const direct = await rpcSync('c', square, [x]);
        const through = await rpcSync('b', squareVia, ['c', x]);
        for (const agent of open) if (agent.name === 'c') await leave(agent);
        await Promise.all([a, b].map((agent) => knows(agent, 1)));
        expect((await join(name)).id).toBe(2);
        await Promise.all([a, b].map((agent) => knows(agent, 2)));
        // The newcomer takes part in the same context, with numbers of its own.
        const later = await rpcSync(name, square, [x.mul(10)]);
        const laterThrough = await rpcSync('b', squareVia, [name, x.mul(10)]);
        const codes = [
          await codeOf(backward(id, [direct.sum()], { retainGraph: true })),
          await codeOf(backward(id, [through.sum()], { retainGraph: true })),
        ];
        expect(getGradients(id).get(x)).toBeUndefined();
        const fine = await codeOf(backward(id, [later.add(laterThrough).sum()]));
        return [codes, [fine, getGradients(id).get(x)?.toArray()]] as const;
      }),
    );
    expect(stale.includes('ok')).toBe(false);
    expect(fresh).toEqual(['ok', [600, 1200, 1800]]);
    for (const agent of open) if (agent.name === name) await leave(agent);
    await Promise.all([a, b].map((agent) => knows(agent, 1)));
    if (name === 'c') await join('c');
    await expect.poll(() => a.debugInfo()['dist_autograd.num_contexts'] ?? 0).toBe(0);
  }
}, 60_000);
