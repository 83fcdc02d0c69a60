/** @file Groups whose output nobody reads: they run on unheard, and end when they are told to. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
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
    const { stdout } = child as { stdout: Readable };
    stdout.setEncoding('utf8');
    let said = '';
    // 100 kB a second: slower, in all, than the launcher waits for who takes nothing.
    stdout.on('data', (text: string) => {
      if (text.includes('ready')) child.kill('SIGTERM');
      said += text;
      stdout.pause();
      setTimeout(() => stdout.resume(), text.length / 100);
    });
    await new Promise((done) => child.on('close', done));
    expect(said.split(': y\n').length - 1).toBe(100_000);
  });

  it('is read to its end after the worker, also by a program that takes it as it comes and is busy in between', async () => {
    const { Writable } = process.getBuiltinModule('node:stream');
    const program = join(folder, 'last-words.mjs');
    writeFileSync(program, `process.stdout.write(('y'.repeat(999) + '\\n').repeat(200));`);
    let lines = 0;
    const write = (_chunk: Buffer, _encoding: string, done: () => void): void => {
      lines++;
      // Longer, a few times, than the launcher waits for children of the worker that have its pipes.
      if (lines % 60 === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
      done();
    };
    const stdout = new Writable({ highWaterMark: 2 ** 20, write });
    expect(await launch({ program, processes: 1, execArgv: [], stdout })).toMatchObject({ exitCode: 0 });
    expect(lines).toBe(200);
  });

  it('ends with the worker where a child of it writes on for ever', async () => {
    const { Writable } = process.getBuiltinModule('node:stream');
    const program = join(folder, 'parent.mjs');
    writeFileSync(
      program,
      `import { spawn } from 'node:child_process';
       const child = spawn(process.execPath, [${JSON.stringify(flood())}], { stdio: ['ignore', 'inherit', 'inherit'], detached: true });
       console.log('child ' + child.pid);
       child.unref();`,
    );
    let said = '';
    const stdout = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (said.length < 1_000) said += chunk.toString();
        done();
      },
    });
    try {
      const run = launch({ program, processes: 1, execArgv: [], stdout });
      expect(await Promise.race([run, sleep(15_000)])).toMatchObject({ exitCode: 0 });
    } finally {
      const [, pid] = /child (\d+)/.exec(said) ?? [];
      if (pid !== undefined) process.kill(Number(pid), 'SIGKILL');
    }
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
