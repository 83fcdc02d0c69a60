/** @file Groups whose output nobody reads: they run on unheard, and end when they are told to. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '@backwire/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { launch } from './index.ts';

const root = resolve(import.meta.dirname, '..');
const worker = join(root, 'test/worker.ts');
const secret = 'a secret of the unheard, long enough';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-unheard-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function start(argv: readonly string[], env: NodeJS.ProcessEnv = {}, program = 'test/command.ts'): ChildProcess {
  const flags = ['--import', 'tsx', '--conditions=@backwire/source', join(root, program)];
  return spawn(process.execPath, [...flags, ...argv], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const endOf = (child: ChildProcess): Promise<unknown> => new Promise((done) => child.on('exit', (code) => done(code)));

/** A worker that writes as much as is taken. */
function flood(): string {
  const program = join(folder, 'flood.mjs');
  const text = `const go = () => { while (process.stdout.write('x'.repeat(99) + '\\n')); process.stdout.once('drain', go); }; go();`;
  writeFileSync(program, text);
  return program;
}

describe('output that nobody reads', { timeout: 60_000 }, () => {
  it('is nothing to end for: not the help, not a mistake, not a group of several hosts that has to wait', async () => {
    const flags = ['--nnodes', '2', '--membership', 'dynamic', '--rdzv-backend', 'c10d'];
    const group = ['run', ...flags, '--rdzv-endpoint', `127.0.0.1:${await freePort()}`, worker, 'print'];
    const cases: readonly (readonly [readonly string[], number])[] = [
      [['run', '--help'], 0],
      [['run', '--wrong'], 2],
      [group, 0],
      [group, 0],
    ];
    const codes = cases.map(([argv]) => {
      const child = start(argv, { BACKWIRE_SECRET: secret });
      child.stdout?.destroy();
      child.stderr?.destroy();
      return endOf(child);
    });
    expect(await Promise.all(codes)).toEqual(cases.map(([, code]) => code));
  });

  it.each(['one signal', 'a signal of launch()'])('keeps no group that is told to end by %s', async (by) => {
    const program = flood();
    if (by === 'one signal') {
      const child = start(['run', '--standalone', '--nproc-per-node', '2', program]);
      // Two lines are read, and then nothing.
      await new Promise((done) => child.stdout?.once('data', done));
      child.stdout?.pause();
      await sleep(500);
      child.kill('SIGTERM');
      expect(await Promise.race([endOf(child), sleep(15_000)])).toBe(143);
    } else {
      const { Writable } = process.getBuiltinModule('node:stream');
      const controller = new AbortController();
      const stdout = new Writable({ write: () => setTimeout(() => controller.abort(), 200) });
      const run = launch({ program, processes: 2, execArgv: [], stdout, signal: controller.signal });
      expect(await Promise.race([run, sleep(15_000)])).toMatchObject({ exitCode: 143 });
    }
  });

  it('ends no process that has called the command as a function and goes on', async () => {
    const child = start(['run', '--standalone', '--nproc-per-node', '2', flood()], {}, 'test/caller.ts');
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await new Promise((done) => child.stdout?.once('data', done));
    child.stdout?.pause();
    await sleep(500);
    child.kill('SIGTERM');
    expect(await Promise.race([endOf(child), sleep(30_000)]), said).toBe(7);
    expect(said).toContain('still here after 143');
  });

  it('is waited for as long as it is read, if slowly', async () => {
    const program = join(folder, 'words.mjs');
    const lastWords = `process.stdout.write('y\\n'.repeat(100_000), () => process.exit(0))`;
    const text = `process.on('SIGTERM', () => ${lastWords}); setInterval(() => undefined, 1_000); console.log('ready');`;
    writeFileSync(program, text);
    const child = start(['run', '--standalone', '--stop-grace', '60', program]);
    let read = 0;
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      if (chunk.includes('ready')) child.kill('SIGTERM');
      read += chunk.split('y\n').length - 1;
      child.stdout?.pause();
      setTimeout(() => child.stdout?.resume(), 20);
    });
    await new Promise((done) => child.on('close', done));
    expect(read).toBeGreaterThan(99_000);
  });

  it('goes to a folder that is named, where none was given, and to none after a mistake', async () => {
    const env = { TMPDIR: folder };
    const child = start(['run', '--standalone', '--tee', '3', worker, 'print'], env);
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    expect(await endOf(child)).toBe(0);
    const [, logs] = /^backwire: the logs are in (.*)$/m.exec(said) ?? [];
    expect(readdirSync(logs ?? 'none'), said).toHaveLength(1);
    rmSync(logs ?? 'none', { recursive: true });
    expect(await endOf(start(['run', '--standalone', '--tee', '3', '--stop-grace', 'soon', worker], env))).toBe(2);
    expect(readdirSync(folder).filter((name) => name.startsWith('backwire-logs-'))).toEqual([]);
  });
});
