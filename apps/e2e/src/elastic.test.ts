/** @file An elastic run of the main job: two trainers, a third joins, one is killed, and the training reaches its accuracy; who comes too late ends. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort } from '@backwire/testing';
import { afterEach, expect, it, vi } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');
const command = join(root, 'packages/launch/test/command.ts');
const worker = join(root, 'apps/examples/src/02-parameter-server/worker.ts');
/** The same, held after the second epoch until there is a file: how long a process takes to start is no matter then. */
const held = join(root, 'apps/e2e/programs/held-training.mjs');
const out = mkdtempSync(join(tmpdir(), 'backwire-elastic-run-'));
const released = join(out, 'released');

/** A launcher, as its own process, with all it and its workers print. */
class Launcher {
  readonly child: ChildProcess;
  readonly code: Promise<number | null>;
  log = '';

  constructor(flags: readonly string[], args: readonly string[]) {
    const node = ['--import', 'tsx', '--conditions=@backwire/source', command];
    this.child = spawn(process.execPath, [...node, 'run', ...flags, held, '--elastic', ...args], {
      env: { ...process.env, BACKWIRE_SECRET: 'the secret of an elastic run', HELD_UNTIL: released },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    this.code = new Promise((done) => this.child.once('close', done));
    running.push(this);
  }

  sees(what: RegExp): Promise<void> {
    return vi.waitFor(() => expect(this.log).toMatch(what), { timeout: 90_000, interval: 50 });
  }
}

const running: Launcher[] = [];
afterEach(async () => {
  for (const { child } of running) child.kill('SIGTERM');
  await Promise.all(running.splice(0).map(({ code }) => code));
  rmSync(out, { recursive: true, force: true });
});

/** A worker that no launcher started, in a group whose store is a file. */
function lateWorker(rank: number): Promise<{ code: number | null; printed: string }> {
  const node = ['--import', 'tsx', '--conditions=@backwire/source', worker, '--elastic', '--out', out];
  const child = spawn(process.execPath, node, {
    env: { ...process.env, RANK: String(rank), BACKWIRE_STORE: `file://${join(out, 'group')}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  return new Promise((done) => child.once('close', (code) => done({ code, printed })));
}

/** The process that is this rank of this run. */
function pidOf(rank: number, runId: string): number {
  const found = readdirSync('/proc').find((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      return variables.includes(`RANK=${rank}`) && variables.includes(`BACKWIRE_RUN_ID=${runId}`);
    } catch {
      return false;
    }
  });
  if (found === undefined) throw new Error(`no process is rank ${rank}`);
  return Number(found);
}

it.skipIf(process.platform !== 'linux')(
  'a third trainer joins, one is killed and replaced, the accuracy is reached, and the log tells it',
  { timeout: 240_000 },
  async () => {
    const runId = `elastic-${process.pid}`;
    const endpoint = `127.0.0.1:${await freePort()}`;
    const flags = ['--membership', 'dynamic', '--nnodes', '1:3', '--rdzv-backend', 'c10d', '--rdzv-endpoint', endpoint];
    const all = [...flags, '--rdzv-id', runId, '--rdzv-conf', 'last_call_timeout=0', '--max-restarts', '1'];
    const job = ['--trainers', '2', '--epochs', '4', '--limit', '48000', '--out', out];
    // Coordinator, server and two trainers; then one more trainer, as from another machine.
    const first = new Launcher([...all, '--nproc-per-node', '4'], job);
    await first.sees(/epoch 1 of 4/);
    const second = new Launcher(all, job);
    await first.sees(/elastic: trainer2 joined, 3 train/);
    process.kill(pidOf(3, runId), 'SIGKILL');
    await first.sees(/elastic: trainer1 is gone, 2 train/);
    await first.sees(/elastic: trainer3 joined, 3 train/);
    writeFileSync(released, '');
    expect(await first.code, first.log).toBe(0);
    expect(await second.code, second.log).toBe(0);
    const { log } = first;
    const story = [
      /round 0 starts with 1 host, 4 workers/,
      /elastic: trainer[01] joined, 2 train/,
      /epoch 1 of 4: test accuracy/,
      /host .* joined as rank 4/,
      /elastic: trainer2 joined, 3 train/,
      /\[rank3\] pid \d+ on .*: killed by SIGKILL; rank 5 takes its place \(1 of 1\)/,
      /elastic: trainer3 joined, 3 train/,
      /epoch 4 of 4: test accuracy/,
      /the workers of host .* have finished/,
      /the group has finished/,
    ];
    let from = 0;
    for (const line of story) {
      const at = log.slice(from).search(line);
      expect(at, `${String(line)} after position ${from} of ${log}`).toBeGreaterThanOrEqual(0);
      from += at;
    }
    const { testAccuracy } = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as { testAccuracy: number };
    expect(testAccuracy).toBeGreaterThan(0.9);
  },
);

it.skipIf(process.platform !== 'linux')(
  'a trainer that comes when all have gone ends, and says why',
  { timeout: 120_000 },
  async () => {
    expect(await lateWorker(5)).toEqual({ code: 0, printed: 'elastic: no coordinator in 20 s: the run is over\n' });
  },
);
