/** @file Two hosts as two network namespaces: the main job trains over TLS, then the link is cut, and each side ends or goes on as it was told. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');
const node = [process.execPath, '--import', 'tsx', '--conditions=@backwire/source'];
const command = join(root, 'packages/launch/test/command.ts');
const worker = join(root, 'apps/examples/src/02-parameter-server/worker.ts');
const id = `bw${process.pid % 100_000}`;
const spaces = [`${id}a`, `${id}b`] as const;
const links = [`${id}va`, `${id}vb`] as const;
const addresses = ['10.213.7.1', '10.213.7.2'] as const;
const PORT = 29_500;
/** A host that is cut off is noticed in 15 s; its workers then get 3 s to end. The rest is for a slow machine. */
const STATED_MS = 15_000 + 3_000 + 12_000;

const ip = (...args: string[]): boolean => spawnSync('ip', args, { stdio: 'ignore' }).status === 0;

/** Whether namespaces can be made here. */
function possible(): boolean {
  const probe = `${id}p`;
  if (process.platform !== 'linux' || process.getuid?.() !== 0 || !ip('netns', 'add', probe)) return false;
  const veth = ip('-n', probe, 'link', 'add', 'x', 'type', 'veth', 'peer', 'name', 'y');
  ip('netns', 'del', probe);
  return veth;
}

const can = possible();

/** A launcher in one of the namespaces. */
class Host {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; at: number }>;
  log = '';

  constructor(n: 0 | 1, flags: readonly string[], args: readonly string[]) {
    const argv = ['netns', 'exec', spaces[n], ...node, command, 'run', ...flags, worker, ...args];
    this.child = spawn('ip', argv, {
      env: { ...process.env, BACKWIRE_SECRET: 'a secret that both hosts know' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    this.ended = new Promise((done) => this.child.once('close', (code) => done({ code, at: performance.now() })));
    hosts.push(this);
  }

  sees(what: RegExp): Promise<void> {
    return vi.waitFor(() => expect(this.log).toMatch(what), { timeout: 90_000, interval: 50 });
  }
}

const hosts: Host[] = [];
let out: string;

describe.skipIf(!can)(can ? 'two hosts' : 'two hosts (skipped: network namespaces cannot be made here)', () => {
  beforeAll(() => {
    out = mkdtempSync(join(tmpdir(), 'backwire-hosts-'));
    for (const space of spaces) expect(ip('netns', 'add', space)).toBe(true);
    const pair = [
      'link',
      'add',
      links[0],
      'netns',
      spaces[0],
      'type',
      'veth',
      'peer',
      'name',
      links[1],
      'netns',
      spaces[1],
    ];
    expect(ip(...pair)).toBe(true);
    for (const n of [0, 1] as const) {
      ip('-n', spaces[n], 'addr', 'add', `${addresses[n]}/24`, 'dev', links[n]);
      ip('-n', spaces[n], 'link', 'set', 'lo', 'up');
    }
  });
  afterEach(async () => {
    for (const { child } of hosts) child.kill('SIGTERM');
    await Promise.all(hosts.splice(0).map(({ ended }) => ended));
  });
  afterAll(() => {
    for (const space of spaces) ip('netns', 'del', space);
    rmSync(out, { recursive: true, force: true });
  });

  const link = (state: 'up' | 'down'): void => {
    for (const n of [0, 1] as const) expect(ip('-n', spaces[n], 'link', 'set', links[n], state)).toBe(true);
  };
  const flags = ['--master-addr', addresses[0], '--master-port', String(PORT)];
  const job = (epochs: number): string[] => [
    '--trainers',
    '2',
    '--epochs',
    String(epochs),
    '--limit',
    '6000',
    '--out',
    out,
  ];

  it('of a fixed size: both sides end when the link is cut', { timeout: 180_000 }, async () => {
    link('up');
    const both = [...flags, '--nnodes', '2', '--nproc-per-node', '2'];
    const [a, b] = [0, 1].map((n) => new Host(n as 0 | 1, [...both, '--node-rank', String(n)], job(1_000))) as [
      Host,
      Host,
    ];
    await a.sees(/epoch 1\b/);
    // What does not speak TLS gets an alert at most.
    const dial = `require('net').connect(${PORT},'${addresses[0]}').on('data',d=>{console.log(d[0]);process.exit()}).on('close',()=>console.log('closed')).on('error',()=>{}).write(Buffer.from('00cef7853c','hex').toString('latin1').repeat(20))`;
    const answer = spawnSync('ip', ['netns', 'exec', spaces[1], process.execPath, '-e', dial], { encoding: 'utf8' });
    expect(['21', 'closed']).toContain(answer.stdout.trim().split('\n')[0]);
    const cut = performance.now();
    link('down');
    const ends = await Promise.all([a.ended, b.ended]);
    for (const { code, at } of ends) {
      expect(code).not.toBe(0);
      expect(at - cut).toBeLessThan(STATED_MS);
    }
    console.log(`both ended, after ${ends.map(({ at }) => ((at - cut) / 1_000).toFixed(1)).join(' and ')} s`);
  });

  it('of one to two hosts: the side with the store trains on, the other ends', { timeout: 240_000 }, async () => {
    link('up');
    const endpoint = ['--rdzv-backend', 'c10d', '--rdzv-endpoint', `${addresses[0]}:${PORT}`];
    const elastic = ['--membership', 'dynamic', '--nnodes', '1:2', '--rdzv-conf', 'last_call_timeout=0', ...endpoint];
    const a = new Host(0, [...elastic, '--nproc-per-node', '3'], ['--elastic', ...job(8)]);
    await a.sees(/elastic: trainer0 joined/);
    const b = new Host(1, elastic, ['--elastic', ...job(8)]);
    await a.sees(/epoch 1 of 8/);
    const cut = performance.now();
    link('down');
    const end = await b.ended;
    expect(end.code).not.toBe(0);
    expect(end.at - cut).toBeLessThan(STATED_MS);
    await a.sees(/elastic: trainer1 is gone, 1 train/);
    const noticed = performance.now() - cut;
    expect((await a.ended).code, a.log).toBe(0);
    expect(a.log).toMatch(/host .* is gone/);
    const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as { testAccuracy: number };
    expect(summary.testAccuracy).toBeGreaterThan(0.85);
    console.log(
      `the other side ended after ${((end.at - cut) / 1_000).toFixed(1)} s; its trainer was given up by ${(noticed / 1_000).toFixed(1)} s`,
    );
  });
});
