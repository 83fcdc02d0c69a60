/** @file Launchers that are told to end while no worker of theirs runs: they leave their group, and say by what they were stopped. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort } from '@backwire/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LaunchOptions } from '../src/index.ts';
import { LaunchedHost } from './host.ts';

const root = resolve(import.meta.dirname, '..');

let folder: string;
let port: number;
let hosts: Host[] = [];
beforeEach(async () => {
  vi.stubEnv('BACKWIRE_SECRET', 'a secret of those who end, long enough');
  folder = mkdtempSync(join(tmpdir(), 'backwire-told-'));
  port = await freePort();
});
afterEach(async () => {
  for (const { abort } of hosts) abort.abort();
  await Promise.allSettled(hosts.map(({ result }) => result));
  hosts = [];
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function program(lines: string): string {
  const path = join(folder, 'program.sh');
  writeFileSync(path, `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  return path;
}

class Host extends LaunchedHost {
  constructor(options: Partial<LaunchOptions>) {
    super({
      program: program('echo "at work $RANK"; while [ ! -f "$1/end.$RANK" ]; do sleep 0.05; done'),
      args: [folder],
      masterPort: port,
      ...options,
    });
    hosts.push(this);
  }

  sees(part: string): Promise<void> {
    return vi.waitFor(() => expect(this.text).toContain(part), { timeout: 15_000, interval: 20 });
  }
}

const STOPPED = { ok: false, exitCode: 143, failure: undefined, report: 'backwire: the group was stopped by SIGTERM' };

describe('a launcher that is told to end', { timeout: 60_000 }, () => {
  it.each<[string, Partial<LaunchOptions>]>([
    ['waits for the others', { nodes: 2, nodeRank: 0 }],
    ['waits for the host with the store', { nodes: 2, nodeRank: 1 }],
    ['waits for as many as may come', { nodes: 3, minNodes: 1, lastCallMs: 60_000 }],
  ])('while it %s says so, and blames no other host', async (_, options) => {
    const host = new Host(options);
    setTimeout(() => host.abort.abort(), 500);
    expect(await host.result).toMatchObject(STOPPED);
  });

  it('before it has begun starts nothing', async () => {
    const host = new Host({ nodes: 2, nodeRank: 0, signal: AbortSignal.abort() });
    expect(await host.result).toMatchObject(STOPPED);
    expect(host.text).toBe('');
  });

  it('while a group gathers leaves it to those who wait on', async () => {
    const elastic = { nodes: 3, minNodes: 2, lastCallMs: 3_000, joinTimeoutMs: 30_000 };
    const first = new Host(elastic);
    await first.sees('joined');
    const second = new Host(elastic);
    await vi.waitFor(() => expect(first.text.split('joined')).toHaveLength(3), { timeout: 15_000 });
    second.abort.abort();
    expect(await second.result).toMatchObject(STOPPED);
    await first.sees('has left: stopped by SIGTERM');
    const third = new Host(elastic);
    await Promise.all([first.sees('at work 0'), third.sees('at work 1')]);
  });

  it('once its own workers have finished lets those of the others finish, too', async () => {
    const pair = { nodes: 2, runId: 'pair' };
    const first = new Host({ ...pair, nodeRank: 0 });
    const second = new Host({ ...pair, nodeRank: 1 });
    await Promise.all([first.sees('at work 0'), second.sees('at work 1')]);
    writeFileSync(join(folder, 'end.1'), '');
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    second.abort.abort();
    expect(await second.result).toMatchObject(STOPPED);
    writeFileSync(join(folder, 'end.0'), '');
    expect(await first.result).toMatchObject({ ok: true, exitCode: 0 });
  });

  it.each([
    ['SIGTERM', [], 143],
    ['SIGINT', [], 130],
    ['SIGUSR2', ['--signals-to-handle', 'SIGUSR2'], 140],
  ] as const)('by %s while it waits, ends with its number and is not killed by it', async (signal, flags, code) => {
    const where = ['--nnodes', '2', '--node-rank', '0', '--master-addr', '127.0.0.1', '--master-port', String(port)];
    const argv = [join(root, 'test/command.ts'), 'run', ...where, ...flags, join(root, 'test/worker.ts')];
    const command = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', ...argv], {
      env: { ...process.env, BACKWIRE_STORE_WS: '0' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    command.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const ended = new Promise((done) => command.on('close', (...end) => done(end)));
    await vi.waitFor(() => expect(said).toContain('browsers reach the store'), { timeout: 20_000, interval: 20 });
    command.kill(signal);
    expect(await ended).toEqual([code, null]);
    expect(said).toMatch(new RegExp(`\nbackwire: the group was stopped by ${signal}\n$`));
  });
});
