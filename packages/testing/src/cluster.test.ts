import { describe, expect, it } from 'vitest';
import { TestCluster } from './cluster.ts';
import { eventually } from './leaks.ts';

const program = new URL('../test/worker.ts', import.meta.url);
const alive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('TestCluster', () => {
  it('starts ranked processes from source and collects their output by rank', async () => {
    await using cluster = new TestCluster({ program, worldSize: 2, env: (rank) => ({ COLOUR: `c${rank}` }) });
    await cluster.succeeded();
    expect(cluster.worker(0).output('stdout')).toMatch(/^rank 0 of 2 mode none pid \d+$/);
    expect(cluster.worker(1).output('stderr')).toContain('warning from 1');
    expect(cluster.output()).toMatch(/\[0\] rank 0[\s\S]*\[1\] rank 1/);
  });

  it('says which worker failed and what it wrote', async () => {
    await using cluster = new TestCluster({ program, worldSize: 2, args: ['fail'] });
    await expect(cluster.succeeded()).rejects.toThrow(/worker 1 ended with code 3[\s\S]*warning from 1/);
  });

  it('rejects a wait for a line when the process ends or the time is over, with its output', async () => {
    await using ends = new TestCluster({ program, worldSize: 1 });
    await expect(ends.worker(0).line('never')).rejects.toThrow(
      /ended with code 0 without a line never[\s\S]*rank 0 of 1/,
    );
    await using stays = new TestCluster({ program, worldSize: 1, args: ['stay'] });
    await stays.worker(0).line('rank 0');
    await expect(stays.worker(0).line('never', { timeoutMs: 50 })).rejects.toThrow('did not write never within 50 ms');
    await expect(stays.exited(50)).rejects.toThrow('did not end within 50 ms');
  });

  it('talks to a worker, stops it, kills it and starts it again', async () => {
    await using cluster = new TestCluster({ program, worldSize: 1, args: ['echo'] });
    const worker = cluster.worker(0);
    worker.send('hello');
    expect(await worker.line(/^echo/)).toBe('echo hello');
    worker.kill('SIGSTOP');
    worker.send('later');
    await expect(worker.line('echo later', { timeoutMs: 200 })).rejects.toThrow('did not write');
    worker.kill('SIGCONT');
    await worker.line('echo later');
    expect(() => cluster.restart(0)).toThrow('still running');
    worker.kill('SIGKILL');
    expect(await worker.exited()).toEqual({ code: null, signal: 'SIGKILL' });
    const seen = worker.lines.length;
    cluster.restart(0);
    await worker.line('rank 0', { from: seen });
  });

  it('kills children of its workers too when it is disposed', async () => {
    const cluster = new TestCluster({ program, worldSize: 1, args: ['grandchild'] });
    const grandchild = Number((await cluster.worker(0).line(/^grandchild/)).split(' ')[1]);
    expect(alive(grandchild)).toBe(true);
    await cluster.dispose();
    await cluster.dispose();
    await eventually('grandchild is gone', () => !alive(grandchild));
  });

  it('leaves no orphan when the process that started it is killed, stopped workers included', async () => {
    await using outer = new TestCluster({ program: new URL('../test/owner.ts', import.meta.url), worldSize: 1 });
    const owner = outer.worker(0);
    await owner.line('ready');
    const pids = owner.lines.flatMap(({ text }) => /^(?:grand)?child (\d+)$/.exec(text)?.[1] ?? []).map(Number);
    expect(pids).toHaveLength(4);
    expect(pids.every(alive)).toBe(true);
    owner.kill('SIGKILL');
    await eventually('all four are gone', () => !pids.some(alive));
  });
});
