/** @file One address that holds all: what `backwire run` prints leads to its group from everywhere. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '@backwire/testing';

const cli = fileURLToPath(new URL('../src/cli.ts', import.meta.url));
const job = fileURLToPath(new URL('./job.ts', import.meta.url));
const gateway = fileURLToPath(new URL('./gateway.ts', import.meta.url));

let folder: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'b-'));
});
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => (child.kill('SIGKILL'), ended(child))));
  rmSync(folder, { recursive: true, force: true });
});

interface Running {
  readonly child: ChildProcess;
  output: string;
}

function start(program: string, argv: readonly string[], env: Record<string, string> = {}): Running {
  const child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', program, ...argv], {
    env: { ...process.env, TMPDIR: folder, BACKWIRE_SECRET: '', BACKWIRE_SECRET_FILE: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  const running = { child, output: '' };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (running.output += String(chunk)));
  return running;
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((done) => {
    if (child.exitCode !== null || child.signalCode !== null) done();
    else child.once('close', () => done());
  });
}

async function seen(running: Running, pattern: RegExp): Promise<RegExpExecArray> {
  for (let i = 0; i < 3_000; i++) {
    const match = pattern.exec(running.output);
    if (match !== null) return match;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error(`${String(pattern)} was not seen in ${running.output}`);
}

async function output(program: string, argv: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const running = start(program, argv, env);
  await ended(running.child);
  return running.output;
}

const ADDRESS = /^backwire: the group is at (\S+)$/m;

describe('the address that backwire run prints', { timeout: 120_000 }, () => {
  it.each([
    ['on one host', ['--standalone', '--nproc-per-node=2']],
    ['in a dynamic group', ['--membership=dynamic', '--nnodes=1:2', '--nproc-per-node=2', '--rdzv-backend=c10d']],
  ])('leads inspect and other programs to its group: %s', async (_how, flags) => {
    const dynamic = flags.includes('--membership=dynamic');
    const own = dynamic ? [`--rdzv-endpoint=127.0.0.1:${await freePort()}`, '--rdzv-conf=last_call_timeout=1'] : [];
    const env = { BACKWIRE_SECRET: dynamic ? 'a secret for tests only' : '' };
    const run = start(cli, ['run', ...flags, ...own, job], env);
    const address = (await seen(run, ADDRESS))[1] as string;
    await seen(run, /ready \d+[\s\S]*ready \d+/);
    expect(address.includes('?prefix=')).toBe(dynamic);
    const text = await output(cli, ['inspect', address], env);
    expect(text).toMatch(/^group 'default', view \d+, 2/);
    expect(text).toMatch(/worker0 +0 +up[\s\S]*worker1 +1 +up/);
    // Without an address: all groups of this machine.
    const list = await output(cli, ['inspect']);
    expect(list).toContain(address);
    expect(list).toContain(String(run.child.pid));
    expect(list).toContain('job.ts');
    const [listed] = JSON.parse(await output(cli, ['inspect', '--json'])) as { address: string }[];
    expect(listed?.address).toBe(address);
    if (dynamic) expect(await output(gateway, [address], env)).toContain('joined worker0 worker1 gateway as 2');
  });

  it('is listed no more, and its secret and sockets are gone, after the run that follows a killed one', async () => {
    const flags = ['run', '--standalone', '--nproc-per-node=2', job];
    const killed = start(cli, flags);
    const port = /:(\d+)$/.exec((await seen(killed, ADDRESS))[1] as string)?.[1] ?? '';
    await seen(killed, /ready \d+[\s\S]*ready \d+/);
    const mine = join(folder, `backwire-${process.getuid?.() ?? 'user'}`);
    const secret = readFileSync(join(mine, `run-${port}`), 'utf8');
    killed.child.kill('SIGKILL');
    await ended(killed.child);
    const pids = [...killed.output.matchAll(/ready (\d+)/g)].map(([, pid]) => Number(pid));
    await expect.poll(() => pids.filter(isAlive), { timeout: 20_000 }).toEqual([]);
    const interrupted = start(cli, flags);
    await seen(interrupted, /ready \d+[\s\S]*ready \d+/);
    expect(existsSync(join(mine, `run-${port}`))).toBe(false);
    await expect.poll(() => sockets().filter((pid) => pids.includes(pid)), { timeout: 20_000 }).toEqual([]);
    expect(sockets().length).toBe(2);
    interrupted.child.kill('SIGINT');
    await ended(interrupted.child);
    // At exit: nothing of it is left, nor of those before.
    expect(sockets()).toEqual([]);
    expect(readdirSync(mine)).toEqual([]);
    expect(secret).toMatch(/^[\w-]{64}$/);
    expect(await output(cli, ['inspect'])).toContain('no group of this user runs on this machine');
  });
});

/** Whose socket folders there are. */
function sockets(): number[] {
  return readdirSync(folder)
    .flatMap((name) => /^backwire-(\d+)-[A-Za-z0-9]{6}$/.exec(name)?.[1] ?? [])
    .map(Number);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
