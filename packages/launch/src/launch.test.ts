/** @file Groups of real processes: how they start, fail, stop and leave nothing behind. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { launch } from './index.ts';

const root = resolve(import.meta.dirname, '..');
const worker = join(root, 'test/worker.ts');

interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** The command as its own process. */
class Command {
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout = '';
  stderr = '';

  constructor(argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const started = Date.now();
    this.child = spawn(
      process.execPath,
      ['--import', 'tsx', '--conditions=@backwire/source', join(root, 'test/command.ts'), ...argv],
      { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.child.stdout?.setEncoding('utf8').on('data', (chunk: string) => (this.stdout += chunk));
    this.child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk));
    this.finished = new Promise((done) => {
      this.child.on('close', (code, signal) =>
        done({ code, signal, stdout: this.stdout, stderr: this.stderr, ms: Date.now() - started }),
      );
    });
  }

  async sees(text: string, times = 1): Promise<void> {
    await until(
      () => this.stdout.split(text).length > times,
      `'${text}' ${times} times in ${this.stdout}${this.stderr}`,
    );
  }
}

const run = (argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> =>
  new Command(argv, env).finished;

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited too long for ${what}`);
    await sleep(20);
  }
}

/** Processes whose command line holds `mark`. */
function alive(mark: string): string[] {
  const { readdirSync } = process.getBuiltinModule('node:fs');
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(mark) && !/\) Z /.test(stat);
    } catch {
      return false;
    }
  });
}

let folder: string;
/** A word on the command lines of this test's workers. */
let mark: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-launch-'));
  mark = folder.slice(-6);
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Without the line that says where the group is. */
const workersOnly = (text: string): string => text.replace(/^backwire: the group is at tcp:\S+\n/, '');

const lines = (text: string, label: string): string[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith(`[${label}]: `))
    .map((line) => line.slice(label.length + 4));

describe('backwire run', () => {
  it('gives every worker its place in the group and one secret', async () => {
    const { code, stdout, stderr } = await run(['run', '--standalone', '--nproc-per-node', '2', worker, 'env']);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const envs = [0, 1].map((rank) => JSON.parse(lines(stdout, `rank${rank}`)[0] ?? '') as Record<string, string>);
    envs.forEach((env, rank) =>
      expect(env).toMatchObject({
        RANK: String(rank),
        LOCAL_RANK: String(rank),
        ROLE_RANK: String(rank),
        GROUP_RANK: '0',
        WORLD_SIZE: '2',
        LOCAL_WORLD_SIZE: '2',
        ROLE_WORLD_SIZE: '2',
        MASTER_ADDR: '127.0.0.1',
        BACKWIRE_RESTART_COUNT: '0',
        BACKWIRE_MAX_RESTARTS: '0',
      }),
    );
    expect(Number(envs[0]?.['MASTER_PORT'])).toBeGreaterThan(0);
    expect(envs[0]?.['BACKWIRE_SECRET']).toMatch(/^[\w-]{64}$/);
    expect(envs[1]?.['BACKWIRE_SECRET']).toBe(envs[0]?.['BACKWIRE_SECRET']);
  });

  it('keeps its fresh secret where this user finds it, out of sight of others, while it runs', async () => {
    const command = new Command(['run', '--standalone', worker, 'wait', mark]);
    await command.sees('ready');
    const environment = (pid: string): string[] => readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    const pid = alive(mark).find((one) => environment(one).includes('RANK=0')) ?? '';
    const variable = (name: string): string | undefined =>
      environment(pid)
        .find((line) => line.startsWith(`${name}=`))
        ?.slice(name.length + 1);
    const path = join(tmpdir(), `backwire-${process.getuid?.() ?? ''}`, `run-${variable('MASTER_PORT') ?? ''}`);
    expect(readFileSync(path, 'utf8')).toBe(variable('BACKWIRE_SECRET'));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain(String(variable('BACKWIRE_SECRET')));
    command.child.kill('SIGINT');
    await command.finished;
    expect(existsSync(path)).toBe(false);
  });

  it('passes arguments and the conditions of its own node on', async () => {
    const { stdout } = await run(['run', '--standalone', worker, 'args', '--flag', 'a b', '--', '-x']);
    const seen = JSON.parse(lines(stdout, 'rank0')[0] ?? '') as { args: string[]; execArgv: string[] };
    expect(seen.args).toEqual(['--flag', 'a b', '--', '-x']);
    expect(seen.execArgv).toContain('--conditions=@backwire/source');
  });

  it('prefixes every line, the unfinished last one too', async () => {
    const { stdout, stderr } = await run(['run', '--standalone', worker, 'print']);
    expect(workersOnly(stdout)).toBe('[rank0]: one\n[rank0]: two\n[rank0]: no newline\n');
    expect(stderr).toBe('[rank0]: from stderr\n');
  });

  it('shows only the ranks asked for, and writes logs', async () => {
    const logs = join(folder, 'logs');
    const flags = [
      '--standalone',
      '--nproc-per-node=2',
      '--local-ranks-filter=1',
      '--rdzv-id=job',
      '--log-dir',
      logs,
      '--tee',
      '3',
      '-r',
      '1:2',
    ];
    const { stdout, stderr } = await run(['run', ...flags, worker, 'print']);
    expect(workersOnly(stdout)).toBe('[rank1]: one\n[rank1]: two\n[rank1]: no newline\n');
    expect(stderr).toBe('');
    expect(readFileSync(join(logs, 'job/attempt_0/0/stdout.log'), 'utf8')).toBe('one\ntwo\nno newline');
    expect(readFileSync(join(logs, 'job/attempt_0/1/stderr.log'), 'utf8')).toBe('from stderr\n');
  });

  it('writes to logs what a worker wrote, byte by byte: long lines, carriage returns and what is no text', async () => {
    const program = join(folder, 'long.mjs');
    const bytes = Buffer.concat([Buffer.from(`x${'😀'.repeat(100_000)}\r\n`), Buffer.from([0xff, 0xfe])]);
    writeFileSync(join(folder, 'bytes'), bytes);
    writeFileSync(
      program,
      "import { readFileSync } from 'node:fs'; process.stdout.write(readFileSync(process.argv[2]));",
    );
    const flags = ['--standalone', '--tee', '3', '--rdzv-id', 'job', '--log-dir', folder];
    const { code, stdout } = await run(['run', ...flags, program, join(folder, 'bytes')]);
    expect(code).toBe(0);
    expect(readFileSync(join(folder, 'job/attempt_0/0/stdout.log')).equals(bytes)).toBe(true);
    expect(lines(stdout, 'rank0').join('')).toBe(`x${'😀'.repeat(100_000)}\ufffd\ufffd`);
  });

  it('names the first failure and stops the rest', async () => {
    const { code, stderr, ms } = await run([
      'run',
      '--standalone',
      '--nproc-per-node',
      '3',
      worker,
      'fail',
      '1',
      '7',
      mark,
    ]);
    expect(code).toBe(7);
    expect(stderr).toMatch(/first failure: \[rank1\] rank 1, pid \d+ on .*, exit code 7 at 20/);
    expect(stderr).toContain('    rank 1 says why');
    expect(stderr).toContain('[rank0] killed by SIGTERM');
    expect(stderr).toContain('[rank2] killed by SIGTERM');
    expect(ms).toBeLessThan(20_000);
    expect(alive(mark)).toEqual([]);
  });

  it('shows the stack of a program that throws', async () => {
    const { code, stderr } = await run(['run', '--standalone', '--nproc-per-node', '2', worker, 'throw', mark]);
    expect(code).toBe(1);
    expect(stderr).toContain('first failure: [rank1]');
    expect(stderr.slice(stderr.indexOf('first failure'))).toContain('thrown by the program');
  });

  it.each(['0.3', '0'])('kills workers that do not listen after %s s, and blames none of them', async (grace) => {
    const { code, stderr } = await run([
      'run',
      '--standalone',
      '--nproc-per-node',
      '2',
      '--stop-grace',
      grace,
      worker,
      'stubborn',
      join(folder, mark),
    ]);
    expect(code).toBe(5);
    expect(stderr).toContain('first failure: [rank0]');
    expect(stderr).toContain('[rank1] killed by SIGKILL');
    expect(alive(mark)).toEqual([]);
  });

  it('names a worker that was killed', async () => {
    const command = new Command(['run', '--standalone', '--nproc-per-node', '2', worker, 'wait', mark]);
    await command.sees('ready', 2);
    const victim = alive(mark)
      .map(Number)
      .find((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes('RANK=1'));
    process.kill(victim ?? 0, 'SIGKILL');
    const { code, stderr } = await command.finished;
    expect(code).toBe(137);
    expect(stderr).toContain(`first failure: [rank1] rank 1, pid ${victim}`);
    expect(stderr).toContain('killed by SIGKILL');
    expect(alive(mark)).toEqual([]);
  });

  it('passes SIGINT on and ends with 130', async () => {
    const command = new Command(['run', '--standalone', '--nproc-per-node', '2', worker, 'wait', mark]);
    await command.sees('ready', 2);
    command.child.kill('SIGINT');
    const { code, stdout, stderr } = await command.finished;
    expect(code).toBe(130);
    expect(lines(stdout, 'rank0')).toContain('interrupted');
    expect(lines(stdout, 'rank1')).toContain('interrupted');
    expect(stderr).toContain('stopped by SIGINT');
  });

  it('leaves no orphan when it is killed itself, not even a worker in an endless loop', async () => {
    const command = new Command(['run', '--standalone', '--nproc-per-node', '2', worker, 'busy', mark]);
    await command.sees('ready', 2);
    command.child.kill('SIGKILL');
    await until(() => alive(mark).length === 0, 'the workers to end');
  });

  it.skipIf(process.platform === 'win32').each(['SIGTERM', 'SIGKILL'] as const)(
    'ends with npx, which passes no signal on: %s',
    async (signal) => {
      const bin = join(folder, 'node_modules/.bin');
      mkdirSync(bin, { recursive: true });
      writeFileSync(join(folder, 'package.json'), '{}');
      const node = [process.execPath, '--import', import.meta.resolve('tsx'), '--conditions=@backwire/source'];
      const words = [...node, join(root, 'test/command.ts')].map((word) => `'${word}'`).join(' ');
      writeFileSync(join(bin, 'backwire-here'), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
      const argv = ['--no', 'backwire-here', 'run', '--standalone', '--nproc-per-node=2', worker, 'wait', mark];
      const npx = spawn('npx', argv, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
      let out = '';
      npx.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
      await until(() => out.split('ready').length > 2, `two workers in ${out}`);
      npx.kill(signal);
      await until(() => alive(mark).length === 0, 'the launcher and its workers to end');
    },
  );

  it('starts a failed group again', async () => {
    const { code, stdout, stderr } = await run([
      'run',
      '--standalone',
      '--nproc-per-node',
      '2',
      '--max-restarts',
      '1',
      worker,
      'twice',
    ]);
    expect(stderr).toContain('starting the group again (1 of 1)');
    expect(lines(stdout, 'rank0')).toEqual(['life 1']);
    expect(lines(stdout, 'rank1').at(-1)).toBe('life 1');
    expect(code).toBe(0);
  });

  it('says which program does not exist', async () => {
    const { code, stderr } = await run(['run', '--standalone', join(folder, 'nowhere.ts')]);
    expect(code).toBe(1);
    expect(stderr).toBe(
      `backwire: the program '${join(folder, 'nowhere.ts')}' does not exist (looked for ${join(folder, 'nowhere.ts')})\n`,
    );
  });

  it('says which commands there are, and which was meant', async () => {
    const near = await run(['rum', worker]);
    expect(near.code).toBe(2);
    expect(near.stderr).toContain(
      "unknown command 'rum'; did you mean 'run'? The commands are run, inspect, dashboard, version, help\n",
    );
    expect((await run([worker])).stderr).toContain('; The commands are run, inspect, dashboard, version, help');
  });

  it('says which flag is wrong', async () => {
    const { code, stderr } = await run(['run', '--standalon', worker]);
    expect(code).toBe(2);
    expect(stderr).toContain("unknown flag '--standalon'; did you mean --standalone?");
  });

  it('says which port is taken', async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    try {
      const { code, stderr } = await run(['run', '--master-port', String(port), worker, 'env']);
      expect(code).toBe(1);
      expect(stderr).toContain(`port ${port} on 127.0.0.1 is already in use`);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    } finally {
      server.close();
    }
  });

  it('runs a program that is not for node', async () => {
    const script = join(folder, 'program.sh');
    writeFileSync(script, '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE: $1"\n', { mode: 0o755 });
    const { code, stdout } = await run(['run', '--standalone', '--no-node', script, 'hi']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^backwire: the group is at \S+\n\[rank0\]: rank 0 of 1: hi\n$/);
  });
});

describe('launch', () => {
  it('finds a program that is not for node on the path', async () => {
    const program = ['node', '-p', '"rank " + process.env.RANK'];
    const { code, stdout } = await run(['run', '--standalone', '--no-python', ...program]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^backwire: the group is at \S+\n\[rank0\]: rank 0\n$/);
    const missing = await run(['run', '--standalone', '--no-python', 'no-such-program-anywhere']);
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('does not exist')]);
  });

  it('ends what a worker that finished left running', async () => {
    const program = join(folder, 'leaves.sh');
    writeFileSync(join(folder, mark), '');
    writeFileSync(program, `#!/bin/sh\ntail -f '${join(folder, mark)}' &\nexit 0\n`, { mode: 0o755 });
    const { code } = await run(['run', '--standalone', '--no-node', program]);
    expect(code).toBe(0);
    await until(() => alive(mark).length === 0, 'the end of what was left');
  });

  it.each([
    ['a file', (at: string) => (writeFileSync(at, ''), at)],
    ['a folder in /proc, where nothing can be made', () => '/proc/no-such-folder/logs'],
  ])('says that logs cannot be written before it starts anything: %s', async (_what, make) => {
    const logs = make(join(folder, 'logs'));
    const flags = ['--standalone', '--tee', '3', '--log-dir', logs];
    const { code, stdout, stderr } = await run(['run', ...flags, worker, 'print']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`backwire: no logs can be written to '${logs}`);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('says which logs cannot be written any more, and lets the workers run', async () => {
    const logs = join(folder, 'logs');
    mkdirSync(join(logs, 'r'), { recursive: true });
    writeFileSync(join(logs, 'r', 'attempt_0'), 'in the way');
    const flags = ['--standalone', '--tee', '3', '--log-dir', logs, '--rdzv-id', 'r'];
    const { code, stdout, stderr } = await run(['run', ...flags, worker, 'print']);
    expect(code).toBe(0);
    expect(stdout).toContain('[rank0]: two');
    expect(stderr).toContain('backwire: cannot write the logs of rank0: ');
  });

  it('keeps its workers to their own group when it is itself a worker of another', async () => {
    const other = { BACKWIRE_STORE: 'tcp://127.0.0.1:1', BACKWIRE_STORE_PREFIX: 'p/', BACKWIRE_MEMBERSHIP: 'dynamic' };
    const { code, stdout } = await run(['run', '--standalone', worker, 'env'], other);
    expect(code).toBe(0);
    for (const name of Object.keys(other)) expect(stdout).toContain(`"${name}":""`);
  });

  it('serves its store to browsers too where that is asked for', async () => {
    const command = new Command(['run', '--standalone', worker, 'print'], { BACKWIRE_STORE_WS: '0' });
    const { code, stderr } = await command.finished;
    expect(code).toBe(0);
    expect(stderr).toMatch(/backwire: browsers reach the store at ws:\/\/127\.0\.0\.1:\d+/);
    for (const port of ['door', '99999']) {
      const wrong = await run(['run', '--standalone', worker, 'print'], { BACKWIRE_STORE_WS: port });
      const why: unknown = expect.stringContaining(`BACKWIRE_STORE_WS is not a port: '${port}'`);
      expect([wrong.code, wrong.stderr]).toEqual([2, why]);
    }
  });

  it.each([
    [{ BACKWIRE_SECRET: 'tooshort' }, 'backwire: BACKWIRE_SECRET has 8 bytes'],
    [{ BACKWIRE_SECRET_FILE: '/nope/secret' }, "backwire: the secret file '/nope/secret' cannot be read"],
  ])('says which secret is none: %j', async (env, why) => {
    const { code, stderr } = await run(['run', '--standalone', worker, 'print'], env);
    expect(code).toBe(1);
    expect(stderr).toContain(why);
    expect(stderr).not.toContain('port');
  });

  it('is stopped by its signal', async () => {
    const controller = new AbortController();
    const { Writable } = process.getBuiltinModule('node:stream');
    let ready = 0;
    const stdout = new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (chunk.toString().includes('ready') && ++ready === 2) controller.abort();
        done();
      },
    });
    const started: number[] = [];
    const result = await launch({
      program: worker,
      args: ['wait', mark],
      processes: 2,
      execArgv: ['--import', 'tsx'],
      stdout,
      signal: controller.signal,
      label: (rank) => `trainer${rank}`,
      onStart: ({ rank, label }) => started.push(rank) && expect(label).toBe(`trainer${rank}`),
    });
    expect(started).toEqual([0, 1]);
    expect(result).toMatchObject({ ok: false, exitCode: 143, failure: undefined });
    expect(alive(mark)).toEqual([]);
  });

  const rejects = async (): Promise<void> => {
    await Promise.resolve();
    throw new Error('of a callback');
  };
  const throws = (): void => {
    throw new Error('of a callback');
  };
  for (const [what, callbacks] of Object.entries({
    'onStart that throws': { onStart: throws },
    'onStart that rejects': { onStart: rejects as () => void },
    'onGroup that throws': { onGroup: throws },
    'onGroup that rejects': { onGroup: rejects as () => void },
  }))
    for (const membership of ['static', 'dynamic'] as const)
      it(`fails with the error of an ${what}, and leaves no worker (${membership})`, async () => {
        const options = { program: worker, args: ['wait', mark], processes: 2, execArgv: ['--import', 'tsx'] };
        await expect(launch({ ...options, membership, ...callbacks })).rejects.toThrow('of a callback');
        expect(alive(mark)).toEqual([]);
      });

  it('says of a flag after the program where it goes', async () => {
    const program = join(folder, 'stray.mjs');
    writeFileSync(program, 'console.log(process.argv.slice(2).join(" "));');
    const { code, stdout, stderr } = await run(['run', '--standalone', program, '--nproc-per-node', '2']);
    expect(stderr).toContain(
      "backwire: --nproc-per-node stands after the program, which is given it; a flag of 'backwire run' stands before the program",
    );
    expect(lines(stdout, 'rank0')).toEqual(['--nproc-per-node 2']);
    expect(code).toBe(0);
  });
});
