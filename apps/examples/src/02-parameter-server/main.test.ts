/** @file The main job as a user runs it: real processes, a small part of the real data, and everything that can go wrong. */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadSafetensors } from '@backwire/tensor';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defaultDataFolder } from '../shared/mnist.ts';
import { parseOptions } from './options.ts';

interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `npm start -- argv`. */
class Start {
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout = '';
  stderr = '';

  constructor(argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const main = join(import.meta.dirname, 'main.ts');
    this.child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', main, ...argv], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.finished = new Promise((done) => {
      this.child.on('close', (code) => done({ code, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  async sees(text: string): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!this.stdout.includes(text)) {
      if (Date.now() > deadline) throw new Error(`waited too long for '${text}' in\n${this.stdout}${this.stderr}`);
      await sleep(20);
    }
  }
}

const start = (argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> =>
  new Start(argv, env).finished;

let out: string;
beforeEach(() => {
  out = mkdtempSync(join(tmpdir(), 'backwire-mnist-'));
});
afterEach(() => {
  rmSync(out, { recursive: true, force: true });
});

/** Pids of this test's workers: those whose command line names its folder; with `rank`, only that one. */
function workers(rank?: number): number[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const cmdline = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        if (!cmdline.includes(out) || !cmdline.includes('worker.ts')) return false;
        if (/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) return false;
        return rank === undefined || readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`RANK=${rank}`);
      } catch {
        return false;
      }
    })
    .map(Number);
}

const summary = (): Record<string, number> =>
  JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as Record<string, number>;
const small = (...more: string[]): string[] => [
  '--epochs',
  '1',
  '--limit',
  '2000',
  '--batch-size',
  '50',
  '--out',
  out,
  ...more,
];

describe('training', () => {
  it('learns with two trainers, and leaves chart, trace, weights and summary', { timeout: 120_000 }, async () => {
    const { code, stdout, stderr } = await start(small());
    expect(stderr).toBe('');
    expect(code).toBe(0);
    // What computes, and how to get something faster where there is: once, in one line.
    expect(stdout.match(/^computing with \w+.*, \d+ threads? a kernel.*$/gm)).toHaveLength(1);
    expect(stdout).toMatch(/trainer0: \d+ of 20 batches, loss/);
    expect(stdout).toMatch(/trainer1: \d+ of 20 batches, loss/);
    expect(stdout).toMatch(/test accuracy +\d\d\.\d\d %/);
    expect(summary()).toMatchObject({ epochs: 1, trainers: 2, samples: 2000, batchSize: 50 });
    // Guessing gets 0.1.
    expect(summary()['testAccuracy']).toBeGreaterThan(0.7);
    expect(summary()['calls']).toBeGreaterThan(40 * 3);
    expect(summary()['bytes']).toBeGreaterThan(2000 * 784 * 4);
    const weights = loadSafetensors(readFileSync(join(out, 'weights.safetensors'))).tensors;
    expect(Object.fromEntries([...weights].map(([name, { shape }]) => [name, shape]))).toEqual({
      'hidden.weight': [128, 784],
      'hidden.bias': [128],
      'output.weight': [10, 128],
      'output.bias': [10],
    });
    expect(readFileSync(join(out, 'training.svg'), 'utf8')).toMatch(/^<svg[\s\S]*trainer1[\s\S]*<\/svg>\s*$/);
    const { traceEvents } = JSON.parse(readFileSync(join(out, 'trace.json'), 'utf8')) as {
      traceEvents: { ph: string; name: string; pid: number; args?: { name?: string } }[];
    };
    expect(traceEvents.filter(({ name }) => name === 'process_name').map(({ args }) => args?.name)).toEqual([
      'coordinator',
      'server',
      'trainer0',
      'trainer1',
    ]);
    // Arrows end on the server.
    expect(traceEvents.filter(({ ph, pid }) => ph === 'f' && pid === 1).length).toBeGreaterThan(10);
    expect(workers()).toEqual([]);
  });

  it(
    'gives the same weights to the bit with one trainer and the same seed, profiled or not',
    { timeout: 120_000 },
    async () => {
      const run = async (...more: string[]): Promise<{ weights: Buffer; stdout: string }> => {
        const { code, stdout, stderr } = await start(
          small('--trainers', '1', '--limit', '640', '--seed', '7', ...more),
        );
        expect(stderr).toBe('');
        expect(code).toBe(0);
        return { weights: readFileSync(join(out, 'weights.safetensors')), stdout };
      };
      const plain = await run();
      const profiled = await run('--profile');
      expect(profiled.weights.equals(plain.weights)).toBe(true);
      expect(plain.stdout).not.toContain('rpc_async#');
      expect(profiled.stdout).toMatch(/rpc_async#RRef\.forward\(trainer0 -> server\)/);
    },
  );
});

describe('failures', () => {
  it('ends soon with the name of a trainer that is killed', { timeout: 120_000 }, async () => {
    const run = new Start(['--epochs', '500', '--limit', '2000', '--out', out]);
    await run.sees('epoch 1 of 500');
    const [victim] = workers(3);
    process.kill(victim ?? 0, 'SIGKILL');
    const killed = Date.now();
    const { code, stderr } = await run.finished;
    expect(Date.now() - killed).toBeLessThan(5_000);
    expect(code).toBe(137);
    expect(stderr).toContain(`first failure: [trainer1] rank 3, pid ${victim}`);
    expect(stderr).toContain('killed by SIGKILL');
    expect(workers()).toEqual([]);
  });

  it('leaves no orphan when it is killed itself', { timeout: 120_000 }, async () => {
    const run = new Start(['--epochs', '500', '--limit', '500', '--trainers', '1', '--out', out]);
    await run.sees('epoch 1 of 500');
    run.child.kill('SIGKILL');
    const deadline = Date.now() + 10_000;
    while (workers().length > 0 && Date.now() < deadline) await sleep(50);
    expect(workers()).toEqual([]);
  });

  it('stops on Ctrl-C', { timeout: 120_000 }, async () => {
    const run = new Start(['--epochs', '500', '--limit', '500', '--trainers', '1', '--out', out]);
    await run.sees('epoch 1 of 500');
    run.child.kill('SIGINT');
    const { code, stderr } = await run.finished;
    expect(code).toBe(130);
    expect(stderr).toContain('stopped by SIGINT');
    expect(workers()).toEqual([]);
  });

  it('names a data file that is missing', { timeout: 120_000 }, async () => {
    const { code, stderr } = await start(small('--data', out));
    expect(code).toBe(1);
    expect(stderr).toBe(`parameter-server: the data file '${join(out, 'train-images-idx3-ubyte')}' does not exist\n`);
  });

  it('names a data file that is truncated', { timeout: 120_000 }, async () => {
    const file = join(out, 'train-images-idx3-ubyte');
    copyFileSync(join(defaultDataFolder(), 'train-images-idx3-ubyte'), file);
    truncateSync(file, 1_000_000);
    const { code, stderr } = await start(small('--data', out));
    expect(code).toBe(1);
    expect(stderr).toBe(
      `parameter-server: the data file '${file}' is truncated: 47040016 bytes are expected, it has 1000000\n`,
    );
  });

  it('names a taken port', { timeout: 120_000 }, async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    try {
      const { code, stderr } = await start(small('--port', String(port)));
      expect(code).toBe(1);
      expect(stderr).toMatch(new RegExp(`^parameter-server: port ${port} on 127\\.0\\.0\\.1 is already in use.*\\n$`));
    } finally {
      server.close();
    }
  });

  it('names an output folder that cannot be made, before it trains', { timeout: 120_000 }, async () => {
    const file = join(out, 'a-file');
    writeFileSync(file, '');
    const { code, stdout, stderr } = await start(['--out', file]);
    expect(code).toBe(2);
    expect(stderr).toContain(`--out ${file}`);
    expect(stdout).toBe('');
  });

  it('names a wrong flag, and says how to be used', { timeout: 120_000 }, async () => {
    const wrong = await start(['--epoch', '3']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toBe("parameter-server: Unknown option '--epoch'; see --help\n");
    const help = await start(['--help']);
    expect(help.code).toBe(0);
    for (const flag of ['epochs', 'batch-size', 'trainers', 'seed', 'lr', 'data', 'out', 'profile'])
      expect(help.stdout).toContain(`--${flag} `);
    expect(existsSync(join(out, 'summary.json'))).toBe(false);
  });

  it.each([
    [['--epochs', '0'], "--epochs has to be a whole number from 1 to 1000, got '0'"],
    [['--batch-size', '1.5'], "--batch-size has to be a whole number from 1 to 60000, got '1.5'"],
    [['--trainers', 'two'], "--trainers has to be a whole number from 1 to 64, got 'two'"],
    [['--lr=-1'], "--lr has to be a positive number, got '-1'"],
    [['--lr'], "Option '--lr <value>' argument missing"],
    [['extra'], "Unexpected argument 'extra'"],
  ])('refuses %j', (argv, message) => {
    expect(() => parseOptions(argv)).toThrow(message);
  });
});
