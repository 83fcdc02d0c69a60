/** @file Groups over several hosts, each a launcher of its own; here the hosts are one. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { HOST_LEASE_MS } from '../src/limits.ts';

const root = resolve(import.meta.dirname, '..');
const worker = join(root, 'test/worker.ts');
const secret = 'a secret of the hosts, long enough';

interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

class Host {
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout = '';
  stderr = '';

  constructor(argv: readonly string[], env: NodeJS.ProcessEnv = { BACKWIRE_SECRET: secret }) {
    this.child = spawn(
      process.execPath,
      ['--import', 'tsx', '--conditions=@backwire/source', join(root, 'test/command.ts'), 'run', ...argv],
      { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.child.stdout?.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.finished = new Promise((done) => {
      this.child.on('close', (code) => done({ code, stdout: this.stdout, stderr: this.stderr }));
    });
  }
}

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return String(port);
}

/** What a host wrote, but for that it waits, which on a busy machine it may have to say. */
const errorsIn = (finished: Finished | undefined): string =>
  (finished?.stderr ?? 'none').replace(/^backwire: .*; this host waits for \d+ s\n/gm, '');
const ranksIn = (text: string): string[] => [...text.matchAll(/"RANK":"(\d+)"/g)].map(([, rank]) => rank ?? '').sort();

// Every host is three processes that have to start, on a machine that may have other things to do.
describe('several hosts', { timeout: 180_000 }, () => {
  it('form one group with ranks by host number', async () => {
    const flags = ['--nnodes', '2', '--nproc-per-node', '2', '--master-port', await freePort()];
    const hosts = [1, 0].map((n) => new Host([...flags, '--node-rank', String(n), worker, 'env']));
    const [second, first] = await Promise.all(hosts.map(({ finished }) => finished));
    expect([first?.code, second?.code, errorsIn(first), errorsIn(second)]).toEqual([0, 0, '', '']);
    expect(ranksIn(first?.stdout ?? '')).toEqual(['0', '1']);
    expect(ranksIn(second?.stdout ?? '')).toEqual(['2', '3']);
    expect(second?.stdout).toContain('"WORLD_SIZE":"4"');
    expect(second?.stdout).toContain('"LOCAL_RANK":"1"');
    expect(second?.stdout).toContain('"GROUP_RANK":"1"');
    expect(second?.stdout).toContain(secret);
  });

  it('get their numbers in the order they come with c10d', async () => {
    const endpoint = `127.0.0.1:${await freePort()}`;
    const flags = ['--nnodes', '2', '--rdzv-backend', 'c10d', '--rdzv-endpoint', endpoint, '--rdzv-id', 'job'];
    const ended = await Promise.all([0, 1].map(() => new Host([...flags, worker, 'env']).finished));
    expect(ended.map((one) => [one.code, errorsIn(one)])).toEqual([
      [0, ''],
      [0, ''],
    ]);
    expect(ended.flatMap(({ stdout }) => ranksIn(stdout)).sort()).toEqual(['0', '1']);
  });

  it('say a failure soon although the host with the store stands still', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'backwire-still-'));
    const waits = `echo "start $RANK"; while [ ! -f ${folder}/end.$RANK ]; do sleep 0.1; done; exit 3`;
    const flags = ['--nnodes', '2', '--master-port', await freePort()];
    const program = ['--no-node', '/bin/sh', '-c', waits];
    const [first, second] = [0, 1].map((n) => new Host([...flags, '--node-rank', String(n), ...program])) as [
      Host,
      Host,
    ];
    try {
      await vi.waitFor(() => expect(first.stdout + second.stdout).toMatch(/start 0[^]*start 1|start 1[^]*start 0/), {
        timeout: 60_000,
      });
      first.child.kill('SIGSTOP');
      writeFileSync(join(folder, 'end.1'), '');
      const began = performance.now();
      expect(await second.finished).toMatchObject({
        code: 3,
        stderr: expect.stringContaining('exit code 3') as string,
      });
      expect(performance.now() - began).toBeLessThan(HOST_LEASE_MS + 12_000);
    } finally {
      writeFileSync(join(folder, 'end.0'), '');
      first.child.kill('SIGCONT');
      second.child.kill('SIGKILL');
      await first.finished;
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('do not wait to come in where the host with the store has died', async () => {
    const flags = ['--nnodes', '2', '--master-port', await freePort()];
    const program = ['--no-node', '/bin/sh', '-c', 'echo "start $RANK"; exec sleep 40'];
    const [first, second] = [0, 1].map((n) => new Host([...flags, '--node-rank', String(n), ...program])) as [
      Host,
      Host,
    ];
    await vi.waitFor(() => expect(first.stdout + second.stdout).toMatch(/start 0[^]*start 1|start 1[^]*start 0/), {
      timeout: 60_000,
    });
    const third = new Host([...flags, '--node-rank', '1', ...program]);
    await vi.waitFor(() => expect(third.stderr).toContain('in case one is gone'), { timeout: 30_000 });
    first.child.kill('SIGKILL');
    try {
      const ended = await Promise.race([third.finished, sleep(25_000)]);
      expect(ended).toMatchObject({ code: 1 });
    } finally {
      for (const host of [first, second, third]) host.child.kill('SIGTERM');
      await Promise.all([first, second, third].map(({ finished }) => finished));
    }
  });

  it('write the output of each worker to a file of its own, also into one folder', async () => {
    const logs = mkdtempSync(join(tmpdir(), 'backwire-logs-'));
    const endpoint = `127.0.0.1:${await freePort()}`;
    const flags = ['--nnodes', '2', '--nproc-per-node', '2', '--redirects', '3', '--log-dir', logs];
    const place = ['--rdzv-backend', 'c10d', '--rdzv-endpoint', endpoint];
    const ended = await Promise.all([0, 1].map(() => new Host([...flags, ...place, worker, 'env']).finished));
    expect(ended.map((one) => [one.code, errorsIn(one)])).toEqual([
      [0, ''],
      [0, ''],
    ]);
    const written = ['0', '1', '2', '3'].map((rank) =>
      ranksIn(readFileSync(join(logs, 'run/attempt_0', rank, 'stdout.log'), 'utf8')),
    );
    expect(written).toEqual([['0'], ['1'], ['2'], ['3']]);
    rmSync(logs, { recursive: true });
  });

  it('all stop when a worker of one fails, and all say which', async () => {
    const flags = ['--nnodes', '2', '--nproc-per-node', '1', '--master-port', await freePort()];
    const hosts = [0, 1].map((n) => new Host([...flags, '--node-rank', String(n), worker, 'fail', '1', '7']));
    const [first, second] = await Promise.all(hosts.map(({ finished }) => finished));
    expect([first?.code, second?.code]).toEqual([1, 7]);
    expect(second?.stderr).toMatch(/first failure: \[rank1\]/);
    expect(first?.stderr).toContain('another host of the group failed');
    expect(first?.stderr).toMatch(/first failure: \[rank1\] rank 1, pid \d+ on .*, exit code 7/);
  });

  it('all start again when a worker of one fails and restarts are left', async () => {
    const flags = ['--nnodes', '2', '--max-restarts', '1', '--master-port', await freePort()];
    const hosts = [0, 1].map((n) => new Host([...flags, '--node-rank', String(n), worker, 'twice']));
    const ended = await Promise.all(hosts.map(({ finished }) => finished));
    expect(ended.map(({ code }) => code)).toEqual([0, 0]);
    for (const { stdout, stderr } of ended) {
      expect(stdout.trim().split('\n').at(-1)).toMatch(/life 1$/);
      expect(stderr).toContain('starting the group again (1 of 1)');
    }
  });

  it('stop when the host with the store is killed', async () => {
    const flags = ['--nnodes', '2', '--master-port', await freePort()];
    const [first, second] = [0, 1].map((n) => new Host([...flags, '--node-rank', String(n), worker, 'wait'])) as [
      Host,
      Host,
    ];
    while (!second.stdout.includes('ready')) await new Promise((done) => setTimeout(done, 50));
    first.child.kill('SIGKILL');
    const { code, stderr } = await second.finished;
    expect(code).toBe(1);
    expect(stderr).toContain("the group's store is gone (the launcher at");
  });

  it('say who did not come', async () => {
    const flags = ['--nnodes', '3', '--rdzv-conf', 'join_timeout=1.5', '--master-port', await freePort()];
    const { code, stderr } = await new Host([...flags, '--node-rank', '0', worker, 'env']).finished;
    expect(code).toBe(1);
    expect(stderr).toBe('backwire: hosts 1, 2 of 3 did not come in 1.5 s\n');
  });

  it('say for whom they wait before they give up', async () => {
    const flags = ['--nnodes', '2', '--rdzv-conf', 'join_timeout=12', '--master-port', await freePort()];
    const [first, second] = [
      new Host([...flags, '--node-rank', '0', worker, 'env']),
      new Host([
        '--nnodes',
        '2',
        '--rdzv-conf',
        'join_timeout=12',
        '--master-port',
        await freePort(),
        '--node-rank',
        '1',
        worker,
        'env',
      ]),
    ];
    const [one, two] = await Promise.all([first.finished, second.finished]);
    expect(one.stderr).toBe(
      'backwire: hosts 1 of 2 did not come in 10 s; this host waits for 12 s\nbackwire: hosts 1 of 2 did not come in 12 s\n',
    );
    expect(two.stderr).toMatch(
      /^backwire: nobody answers at .*:\d+ yet, where the group's store is to be; this host waits for 12 s\n/,
    );
  });

  it('need one secret', async () => {
    const { code, stderr } = await new Host(['--nnodes', '2', '--node-rank', '0', worker, 'env'], {
      BACKWIRE_SECRET: '',
      BACKWIRE_SECRET_FILE: '',
    }).finished;
    expect(code).toBe(1);
    expect(stderr).toContain('set BACKWIRE_SECRET or BACKWIRE_SECRET_FILE');
  });
});
