/** @file `backwire inspect` on a running job: real processes, as a user runs them. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseFlags } from '../src/inspect/flags.ts';
import { freePort, TestCluster } from '@backwire/testing';
import type { GroupLook, WorkerReport } from '@backwire/rpc/internal';
import { command } from '../src/command.ts';
import { inspectText } from '../src/inspect/inspect-text.ts';
import { bytes, cell, duration, table } from '../src/inspect/text.ts';

const SECRET = 'a secret for tests only';
const cli = fileURLToPath(new URL('../src/cli.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `backwire argv` in a process of its own, stopped by SIGINT once `enough` says so of what it wrote. */
function backwire(
  argv: readonly string[],
  env: Record<string, string>,
  enough?: (stdout: string) => boolean,
): Promise<Ended> {
  const child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', cli, ...argv], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr, stopped] = ['', '', false];
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
    if (stopped || enough?.(stdout) !== true) return;
    // Once: a second one is for a command that does not listen.
    stopped = true;
    child.kill('SIGINT');
  });
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((done) => child.on('close', (code) => done({ code, stdout, stderr })));
}

/** The same in this process, which starts sooner. */
async function here(argv: readonly string[], secret = ''): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[stream], 'write').mockImplementation((chunk) => {
      written[stream] += String(chunk);
      return true;
    });
  }
  vi.stubEnv('BACKWIRE_SECRET', secret);
  vi.stubEnv('BACKWIRE_SECRET_FILE', '');
  try {
    return { code: await command(argv), ...written };
  } finally {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  }
}

describe('backwire inspect', { timeout: 60_000 }, () => {
  let workers: TestCluster;
  let endpoint: string;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'backwire-inspect-'));
    const port = String(await freePort());
    endpoint = `127.0.0.1:${port}`;
    const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, BACKWIRE_SECRET: SECRET };
    workers = new TestCluster({ program: new URL('./job.ts', import.meta.url), worldSize: 3, env });
    await Promise.all(workers.workers.map((worker) => worker.line(/^ready/, { timeoutMs: 100_000 })));
    for (const [rank, line] of [
      [0, 'hold'],
      [1, 'hold'],
      [0, 'stick'],
    ] as const) {
      workers.worker(rank).send(line);
      await workers.worker(rank).line(`did ${line}`);
    }
  }, 120_000);
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await workers?.dispose();
  });

  it('shows workers, sessions, calls with their age, references by holder and by creation site, contexts and budgets', async () => {
    // The references take a moment to be confirmed.
    await new Promise((done) => setTimeout(done, 500));
    const { code, stdout, stderr } = await backwire(['inspect', endpoint], { BACKWIRE_SECRET: SECRET });
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^group 'default', view \d+, 3 of 3 workers/);
    for (const rank of [0, 1, 2]) expect(stdout).toMatch(new RegExp(`^ +worker${rank} +${rank} +up +\\d+ `, 'm'));
    expect(stdout).toMatch(/^sessions \(6\)$/m);
    expect(stdout).toMatch(/^ +worker0 +→ +worker1 +job\/stuck +async +[\d.]+ (ms|s) +4 min \d+ s$/m);
    expect(stdout).toMatch(/^ +worker1 +← +worker0 +job\/stuck +running /m);
    expect(stdout).toMatch(/^references by holder \(2\)$/m);
    expect(stdout).toMatch(/^ +worker0 +worker2 +Tensor +1$/m);
    expect(stdout).toMatch(/^references by creation site \(1\)\n.*\n +test\/job\.ts:\d+ .* worker2 +2 +2$/m);
    expect(stdout).toMatch(/^autograd contexts/m);
    expect(stdout).toMatch(/^ +worker2 +RRef forks +2 +1000000 /m);
  });

  it('gives everything as JSON', async () => {
    const { code, stdout } = await here(['inspect', `tcp://${endpoint}`, '--json'], SECRET);
    expect(code).toBe(0);
    const look = JSON.parse(stdout) as GroupLook;
    expect(look.workers.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'worker0 up',
      'worker1 up',
      'worker2 up',
    ]);
    expect(look.workers[2]?.report?.metrics.extensions['num_owner_rrefs']).toBe(2);
  });

  it('looks again and again, until it is stopped', async () => {
    const seen = (stdout: string): number => stdout.split('\n').filter((line) => line.startsWith('{')).length;
    const { code, stdout } = await backwire(
      ['inspect', endpoint, '--watch=0.2', '--json'],
      { BACKWIRE_SECRET: SECRET },
      (text) => seen(text) >= 3,
    );
    expect(code).toBe(0);
    const times = stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as GroupLook).at);
    expect(times.length).toBeGreaterThanOrEqual(3);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  it('ends quietly when nobody reads what it writes', async () => {
    for (const more of [[], ['--json'], ['--watch=0.1', '--json']]) {
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', '--conditions=@backwire/source', cli, 'inspect', endpoint, ...more],
        { env: { ...process.env, BACKWIRE_SECRET: SECRET }, stdio: ['ignore', 'pipe', 'pipe'] },
      );
      let stderr = '';
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      child.stdout.destroy();
      const code = await new Promise((done) => child.on('close', done));
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    }
  });

  it('takes the secret from a file, and has to have the right one', async () => {
    const file = join(folder, 'secret');
    writeFileSync(file, SECRET, { mode: 0o600 });
    expect((await here(['inspect', endpoint, '--secret-file', file])).code).toBe(0);
    const wrong = await here(['inspect', endpoint], 'some other secret of a kind');
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toBe('');
    expect(wrong.stderr).toMatch(/^backwire: .*; give the group's secret by BACKWIRE_SECRET/);
  });

  it('says what is wrong with its command line, and that nobody is there', async () => {
    for (const without of [['inspect', '--watch'], ['dashboard']])
      expect(await here(without)).toMatchObject({
        code: 2,
        // With the addresses of what runs here: the job is among them.
        stderr: expect.stringMatching(new RegExp(`which group\\?[\\s\\S]*tcp://${endpoint}`)) as string,
      });
    expect((await here(['inspect', endpoint, '--watch=soon'])).code).toBe(2);
    expect((await here(['inspect', endpoint, '--security', 'maybe'])).code).toBe(2);
    const nobody = await here(['inspect', `127.0.0.1:${await freePort()}`, '--timeout', '1'], SECRET);
    expect(nobody.code).toBe(1);
    expect(nobody.stderr).toMatch(/^backwire: /);
  });
});

describe('the command', () => {
  it('says its version, and how it is used', async () => {
    expect((await here(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const help = await here(['--help']);
    expect(help.code).toBe(0);
    for (const name of ['run', 'inspect', 'dashboard']) expect(help.stdout).toContain(`backwire ${name} `);
    expect((await here(['inspect', '--help'])).stdout).toContain('--watch');
    expect((await here(['dashboard', '--help'])).stdout).toContain('--interval');
  });
});

describe('texts', () => {
  it('are short and plain', () => {
    expect([0.4, 12, 999, 1_500, 61_000, 7_260_000].map(duration)).toEqual([
      '0.4 ms',
      '12 ms',
      '999 ms',
      '1.5 s',
      '1 min 1 s',
      '2 h 1 min',
    ]);
    expect([0, 1023, 1024, 3 * 2 ** 30].map(bytes)).toEqual(['0 B', '1023 B', '1.0 KiB', '3.0 GiB']);
    expect(table(['a', 'n'], [['xx', '1']], [1])).toBe('a   n\nxx  1');
  });

  it('say how many references there are when a report does not hold them all', () => {
    const owned = Array.from({ length: 1_000 }, (_, i) => ({ id: String(i), type: 'object', holders: ['w0'] }));
    const report = { name: 'w1', sessions: [], outgoing: { calls: [] }, incoming: { calls: [] }, budgets: [] };
    const of = (ownedTotal: number): string => {
      const details = { rref: { owned, ownedTotal } };
      const metrics = { bytes_sent: 0, bytes_received: 0 };
      const full = { ...report, state: 'running', upMs: 1, rssBytes: 1, metrics, details } as unknown as WorkerReport;
      return inspectText({
        group: 'g',
        at: 0,
        epoch: 1,
        workers: [{ name: 'w1', id: 1, incarnation: 1, state: 'up', report: full }],
      });
    };
    expect(of(3_000)).toContain('references by holder, of 1,000 of 3,000 references (1)');
    expect(of(3_000)).toContain('references by creation site, of 1,000 of 3,000 references (1)');
    expect(of(1_000)).toContain('references by holder (1)');
  });

  it('cannot be turned around', () => {
    expect(cell('a\u202eb\u2066c\u200fd\u2028e')).toBe('a b c d e');
  });

  it('cannot move the cursor, whatever a worker calls itself', () => {
    expect(cell('a\u001b[2Jb\nc')).toBe('a [2Jb c');
    const look: GroupLook = {
      group: 'g\u0007',
      at: 0,
      epoch: 1,
      workers: [{ name: 'w\u001b]0;x', id: 0, incarnation: 1, state: 'silent', error: 'no\r\nanswer' }],
    };
    // eslint-disable-next-line no-control-regex
    expect(inspectText(look)).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f]/);
  });
});

it.each([
  ['--jsn', "unknown flag '--jsn'; did you mean --json?"],
  ['--colour', "unknown flag '--colour'; there are --"],
])('the flag %s is unknown, and what there is is named', (flag, text) => {
  expect(() => parseFlags([flag], { json: { type: 'boolean' } })).toThrow(text);
});
