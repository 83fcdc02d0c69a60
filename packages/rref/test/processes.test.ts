/** Workers in processes of their own, killed at the worst moments. */
import { freePort, TestCluster } from '@backwire/testing';
import { describe, expect, it } from 'vitest';

const program = new URL('./worker.ts', import.meta.url);

async function play(scenario: string, worldSize: number): Promise<TestCluster> {
  const port = String(await freePort());
  const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, BACKWIRE_SECRET: 'a secret for tests only' };
  return new TestCluster({ program, worldSize, args: [scenario], env });
}

/** What rank 0, or another, wrote after `key`. */
async function said(cluster: TestCluster, key: string, rank = 0): Promise<unknown> {
  const line = await cluster.worker(rank).line(new RegExp(`^${key} `), { timeoutMs: 40_000 });
  return JSON.parse(line.slice(key.length + 1)) as unknown;
}

describe('workers in processes of their own', { timeout: 90_000 }, () => {
  it('share sixty objects and let all of them go', async () => {
    await using cluster = await play('work', 4);
    expect(await said(cluster, 'values')).toBe(true);
    expect(await said(cluster, 'large')).toEqual([3 << 20, (3 << 20) - 1, true]);
    await cluster.succeeded();
  });

  it('learn that an owner was killed: by every use, pending or later, everywhere', async () => {
    await using cluster = await play('owner killed', 3);
    await cluster.worker(0).line('kill');
    cluster.worker(1).kill('SIGKILL');
    expect(await said(cluster, 'pending')).toEqual(['owner-died', 'owner-died', 'owner-died']);
    expect(await said(cluster, 'elapsed')).toBeLessThan(10_000);
    expect(await said(cluster, 'later')).toEqual(['owner-died', 'owner-died', 'owner-died']);
    expect(await said(cluster, 'again')).toEqual(['peer-died', 'w1', 'no']);
    expect(await said(cluster, 'elsewhere')).toContain("the owner 'w1' of UserRRef(");
    expect(await said(cluster, 'listeners')).toBe(1);
    expect(await said(cluster, 'done')).toBe(true);
    for (const rank of [0, 2]) expect(await cluster.worker(rank).exited()).toEqual({ code: 0, signal: null });
  });

  it('take a restarted owner for another', async () => {
    await using cluster = await play('owner restarted', 2);
    await cluster.worker(0).line('kill');
    cluster.worker(1).kill('SIGKILL');
    await cluster.worker(1).ended;
    await cluster.worker(0).line('restart');
    cluster.restart(1);
    expect(await said(cluster, 'fresh')).toBe(8);
    expect(await said(cluster, 'old')).toBe('owner-died');
    expect(await said(cluster, 'ids')).toEqual([false, 1]);
    expect(await said(cluster, 'done')).toBe(true);
    await cluster.succeeded();
  });

  it('release what a killed user held, and nothing else', async () => {
    await using cluster = await play('user killed', 4);
    await cluster.worker(0).line('kill');
    cluster.worker(2).kill('SIGKILL');
    expect(await said(cluster, 'holders')).toEqual([['w3'], ['w0']]);
    expect(await said(cluster, 'alive')).toEqual([[3, 4], 4]);
    expect(await said(cluster, 'done')).toBe(true);
    for (const rank of [0, 1, 3]) expect(await cluster.worker(rank).exited()).toEqual({ code: 0, signal: null });
  });

  it.each([
    { scenario: 'parent killed', victim: 2 },
    { scenario: 'child killed', victim: 3 },
  ])('keep a value whose $scenario between fork and acceptance', async ({ scenario, victim }) => {
    await using cluster = await play(scenario, 4);
    await cluster.worker(0).line('stop owner');
    cluster.worker(1).kill('SIGSTOP');
    cluster.worker(0).send('stopped');
    await cluster.worker(0).line('kill');
    cluster.worker(victim).kill('SIGKILL');
    await cluster.worker(victim).ended;
    cluster.worker(1).kill('SIGCONT');
    expect(await said(cluster, 'alive')).toEqual([5]);
    expect(await said(cluster, 'done')).toBe(true);
    for (const rank of [0, 1, 2, 3]) {
      if (rank !== victim) expect(await cluster.worker(rank).exited()).toEqual({ code: 0, signal: null });
    }
  });

  it('release a value whose handle was in a call that never starts, because its caller was killed', async () => {
    await using cluster = await play('caller killed', 4);
    await cluster.worker(0).line('stop owner');
    cluster.worker(1).kill('SIGSTOP');
    cluster.worker(0).send('stopped');
    await cluster.worker(0).line('kill');
    cluster.worker(2).kill('SIGKILL');
    await cluster.worker(0).line('go on');
    cluster.worker(1).kill('SIGCONT');
    expect(await said(cluster, 'alive')).toEqual([]);
    expect(await said(cluster, 'collected')).toBe(0);
    expect(await said(cluster, 'done')).toBe(true);
    for (const rank of [0, 1, 3]) expect(await cluster.worker(rank).exited()).toEqual({ code: 0, signal: null });
  });

  it('agree that the worker is gone that serves the store, release what it held, and end in good time', async () => {
    await using cluster = await play('store killed', 3);
    const player = cluster.worker(1);
    const heard = async (key: string): Promise<unknown> => said(cluster, key, 1);
    await player.line('kill', { timeoutMs: 40_000 });
    cluster.worker(0).kill('SIGKILL');
    expect(await heard('pending')).toEqual(['owner-died', 'owner-died']);
    expect(await heard('later')).toBe('owner-died');
    expect(await heard('elapsed')).toBeLessThan(15_000);
    expect(await heard('again')).toEqual([1, null]);
    // What w0 held is released without the store, and so is what was held of w0's.
    expect(await heard('counters')).toMatchObject([{ num_forks: 0 }, { num_forks: 0, num_pending_users: 0 }]);
    expect(await heard('shutdown')).toBeLessThan(12_000);
    for (const rank of [1, 2]) expect(await cluster.worker(rank).exited()).toEqual({ code: 0, signal: null });
  });
});
