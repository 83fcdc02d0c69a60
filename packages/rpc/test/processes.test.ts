/** @file Workers in processes of their own: sockets, an embedded store, and deaths. */
import { describe, expect, it } from 'vitest';
import { freePort, TestCluster } from '@backwire/testing';

const program = new URL('./worker.ts', import.meta.url);

async function cluster(worldSize: number, args: readonly string[]): Promise<TestCluster> {
  const port = String(await freePort());
  return new TestCluster({
    program,
    worldSize,
    args,
    env: { MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, BACKWIRE_SECRET: 'a secret for tests only' },
  });
}

describe('workers in processes of their own', { timeout: 60_000 }, () => {
  it.each(['unix', 'tcp'])('exchange tensors over %s', async (transport) => {
    await using workers = await cluster(2, ['echo', transport]);
    await workers.succeeded();
    expect(workers.worker(0).output()).toContain('echo done');
  });

  it('learn of a killed worker in about a second, by name', async () => {
    await using workers = await cluster(3, ['killed']);
    await workers.worker(0).line(/^kill \d+/);
    const before = performance.now();
    workers.worker(1).kill('SIGKILL');
    const line = await workers.worker(0).line(/^outcomes/);
    // About a second is promised; the machine may be busy with other things.
    expect(performance.now() - before).toBeLessThan(5_000);
    const outcomes = JSON.parse(line.slice('outcomes '.length)) as unknown[];
    const died = { code: 'peer-died', peer: 'w1', executed: 'maybe' };
    expect(outcomes).toEqual([died, died, 'alive']);
    expect(await workers.worker(0).line(/^late/)).toBe('late peer-died');
    expect(await workers.worker(0).line(/^others/)).toBe('others still here');
    expect(await workers.worker(0).line(/^down/)).toBe('down w1');
    expect((await workers.worker(0).exited()).code).toBe(0);
    expect((await workers.worker(2).exited()).code).toBe(0);
  });

  it('do without the worker that hosted the store', async () => {
    await using workers = await cluster(3, ['headless']);
    await workers.worker(1).line(/^kill me/);
    workers.worker(0).kill('SIGKILL');
    const line = await workers.worker(1).line(/^w0 /);
    expect(line).toMatch(/^w0 (unavailable|peer-died) w0$/);
    expect(await workers.worker(1).line(/^w2 /)).toBe('w2 still here');
    expect((await workers.worker(1).exited()).code).toBe(0);
    expect((await workers.worker(2).exited()).code).toBe(0);
  });

  it('do not take a busy worker for a dead one', async () => {
    await using workers = await cluster(2, ['busy']);
    await workers.succeeded();
    expect(workers.worker(0).output()).toContain('busy survived');
  });

  it('let a worker come back after it was killed, as another life', async () => {
    await using workers = await cluster(2, ['reborn']);
    await workers.worker(0).line(/^kill \d+/);
    workers.worker(1).kill('SIGKILL');
    await workers.worker(1).exited();
    await workers.worker(0).line(/^down w1/);
    workers.restart(1);
    expect(await workers.worker(0).line(/^joined/)).toBe('joined w1');
    expect(await workers.worker(0).line(/^reborn/)).toBe('reborn yes');
    expect((await workers.worker(0).exited()).code).toBe(0);
  });
});
