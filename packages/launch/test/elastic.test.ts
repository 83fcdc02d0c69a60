/** @file Groups that grow and shrink: hosts that come and go, workers that are replaced. Each host is a launch of this process. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, isInstalled, STORE_PROGRAMS, storeFlags } from '@backwire/testing';
import { openStore } from '@backwire/rpc/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LaunchOptions } from '../src/index.ts';
import { LaunchedHost } from './host.ts';

/** Says who it is, then waits to be told: the file `end` ends all, `end.<rank>` one, with the code inside. */
const WORKER = `#!/bin/sh
echo $$ > "$1/pid.$RANK"
echo "$BACKWIRE_STORE" > "$1/store.$RANK"
echo "start rank=$RANK of=$WORLD_SIZE local=$LOCAL_RANK restarts=$BACKWIRE_RESTART_COUNT membership=$BACKWIRE_MEMBERSHIP pid=$$"
while :; do
  if [ -f "$1/end.$RANK" ]; then code=$(cat "$1/end.$RANK"); rm "$1/end.$RANK"; exit "$code"; fi
  if [ -f "$1/end" ]; then exit 0; fi
  sleep 0.05
done
`;

class Host extends LaunchedHost {
  constructor(options: Partial<LaunchOptions>) {
    super({
      program: join(folder, 'worker.sh'),
      args: [folder],
      masterPort: port,
      runId: 'elastic',
      lastCallMs: 300,
      joinTimeoutMs: 30_000,
      ...options,
    });
    hosts.push(this);
  }

  get lines(): string[] {
    return this.text.split('\n').map((line) => line.replace(/^\[\w+\]: |^backwire: /, ''));
  }

  /** Waits for a line that holds `part`, so many times. */
  sees(part: string, times = 1): Promise<void> {
    return vi.waitFor(
      () => expect(this.lines.filter((line) => line.includes(part)).length, this.text).toBeGreaterThanOrEqual(times),
      { timeout: 25_000, interval: 20 },
    );
  }
}

let folder: string;
let port: number;
let hosts: Host[] = [];
beforeEach(async () => {
  vi.stubEnv('BACKWIRE_SECRET', 'a secret of the hosts, long enough');
  folder = mkdtempSync(join(tmpdir(), 'backwire-elastic-'));
  writeFileSync(join(folder, 'worker.sh'), WORKER, { mode: 0o755 });
  port = await freePort();
});
afterEach(async () => {
  for (const host of hosts) host.abort.abort();
  await Promise.allSettled(hosts.map(({ result }) => result));
  hosts = [];
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** In one piece: a worker may look at any moment. */
function end(rank?: number, code = 0): void {
  const draft = join(folder, 'draft');
  writeFileSync(draft, String(code));
  renameSync(draft, join(folder, rank === undefined ? 'end' : `end.${rank}`));
}
/** The addresses that so many workers were given. */
const storesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, rank) => readFileSync(join(folder, `store.${rank}`), 'utf8').trim());
const pidOf = (rank: number): number => Number(readFileSync(join(folder, `pid.${rank}`), 'utf8'));

describe('a static group of one to three hosts', { timeout: 60_000 }, () => {
  const elastic = { nodes: 3, minNodes: 1, membership: 'static' as const };

  it('starts again with new ranks when a host joins, and when one leaves', async () => {
    const a = new Host(elastic);
    await a.sees('start rank=0 of=1');
    const b = new Host(elastic);
    await Promise.all([a.sees('start rank=0 of=2'), b.sees('start rank=1 of=2')]);
    a.abort.abort();
    // The host that serves the store leaves: the group ends with it.
    expect((await a.result).exitCode).toBe(143);
    expect((await b.result).report).toContain("the group's store is gone");
  });

  it('tells the story, and a change of hosts costs no restart', async () => {
    const a = new Host({ ...elastic, processes: 2 });
    await a.sees('start rank=1 of=2 local=1 restarts=0 membership=static');
    const b = new Host(elastic);
    await b.sees('start rank=2 of=3');
    b.abort.abort();
    expect((await b.result).exitCode).toBe(143);
    await a.sees('start rank=1 of=2 local=1 restarts=0', 2);
    const story = a.lines.filter((line) => !line.startsWith('start')).join('\n');
    expect(story).toMatch(
      /round 0 starts with 1 host, 2 workers\n[^]*waits to join\n.* joins\nround 1 starts with 2 hosts, 3 workers\n.*has left: stopped by SIGTERM\nround 2 starts with 1 host, 2 workers/,
    );
    end();
    expect(await a.result).toMatchObject({ ok: true, exitCode: 0, restarts: 0 });
  });

  it('starts again after a failure as often as it may, then says what failed', async () => {
    const all = { ...elastic, minNodes: 2, nodes: 3, maxRestarts: 1 };
    const [a, b] = [new Host(all), new Host(all)];
    await Promise.all([a.sees('of=2 local=0 restarts=0'), b.sees('of=2 local=0 restarts=0')]);
    end(1, 7);
    await Promise.all([a.sees('of=2 local=0 restarts=1'), b.sees('of=2 local=0 restarts=1')]);
    end(1, 9);
    const results = await Promise.all([a.result, b.result]);
    expect(results.map(({ exitCode }) => exitCode).sort()).toEqual([1, 9]);
    for (const { lines } of [a, b]) expect(lines.filter((line) => line.includes('exit code 7'))).toHaveLength(1);
    for (const { report } of results)
      expect(report).toMatch(/first failure: \[rank1\] rank 1, pid \d+ on .*, exit code 9/);
  });
});

describe('a dynamic group', { timeout: 60_000 }, () => {
  const dynamic = { nodes: 3, minNodes: 1, membership: 'dynamic' as const };

  it('grows and shrinks while the others run on', async () => {
    const a = new Host(dynamic);
    await a.sees('start rank=0 of= local=0 restarts=0 membership=dynamic');
    const first = pidOf(0);
    const b = new Host({ ...dynamic, processes: 2 });
    await b.sees('start rank=2');
    b.abort.abort();
    await b.result;
    const c = new Host(dynamic);
    await c.sees('start rank=3');
    expect(pidOf(0)).toBe(first);
    expect(a.lines.filter((line) => line.startsWith('start'))).toHaveLength(1);
    await a.sees('joined as rank 3');
    end();
    expect([(await a.result).ok, (await c.result).ok]).toEqual([true, true]);
    expect(a.lines.join('\n')).toMatch(
      /joined as ranks 1 to 2\n[^]*has left: stopped by SIGTERM\n[^]*joined as rank 3\n/,
    );
  });

  it('replaces a worker that was killed by one with a new rank, as often as it may', async () => {
    const a = new Host({ ...dynamic, minNodes: 1, maxRestarts: 1, processes: 2 });
    await Promise.all([a.sees('start rank=0'), a.sees('start rank=1')]);
    const [zero, one] = [pidOf(0), pidOf(1)];
    process.kill(one, 'SIGKILL');
    await a.sees('start rank=2 of= local=1 restarts=');
    expect(a.lines.join('\n')).toContain(
      `[rank1] pid ${one} on ${hostname()}: killed by SIGKILL; rank 2 takes its place (1 of 1)`,
    );
    expect(pidOf(0)).toBe(zero);
    process.kill(pidOf(2), 'SIGKILL');
    const result = await a.result;
    expect(result).toMatchObject({ ok: false, exitCode: 137, failure: { rank: 2 } });
    expect(() => process.kill(zero, 0)).toThrow();
  });

  it('replaces workers whose labels are all the same no more often than it may', async () => {
    const program = join(folder, 'unstartable.sh');
    writeFileSync(program, '#!/nonexistent/interpreter\n', { mode: 0o755 });
    const a = new Host({ ...dynamic, program, processes: 2, maxRestarts: 2, label: () => 'w' });
    expect((await a.result).exitCode).not.toBe(0);
    expect(a.lines.filter((line) => line.includes('takes its place')).map((line) => line.replace(/^.*; /, ''))).toEqual(
      ['rank 2 takes its place (1 of 2)', 'rank 3 takes its place (2 of 2)'],
    );
  });

  it('loses a host whose worker fails and goes on, until too few are left', async () => {
    const all = { ...dynamic, minNodes: 2 };
    const [a, b] = [new Host(all), new Host(all)];
    await Promise.all([a.sees('start'), b.sees('start')]);
    const c = new Host(all);
    await c.sees('start rank=2');
    end(2, 5);
    expect(await c.result).toMatchObject({ ok: false, exitCode: 5 });
    await a.sees('exit code 5');
    expect(a.lines.filter((line) => line.endsWith('worker.sh failed'))).toHaveLength(1);
    expect(c.lines.join('\n')).not.toContain('first failure'); // it is in its report
    expect(a.lines.filter((line) => line.startsWith('start'))).toHaveLength(1);
    const served = a.lines.some((line) => line.startsWith('start rank=0')) ? [a, b] : [b, a];
    end(1, 6);
    expect((await served[1]?.result)?.exitCode).toBe(6);
    const left = await served[0]?.result;
    expect(left).toMatchObject({ ok: false, exitCode: 1 });
    expect(left?.report).toMatch(/another host of the group failed[^]*exit code 6/);
  });

  it('keeps a host that has no room in reserve', async () => {
    const all = { ...dynamic, nodes: 2 };
    const a = new Host(all);
    await a.sees('start rank=0');
    const b = new Host(all);
    await b.sees('start rank=1');
    const c = new Host(all);
    await a.sees('waits to join');
    expect(c.lines.join('')).not.toContain('start rank');
    b.abort.abort();
    await c.sees('start rank=2');
    end();
    expect([(await a.result).ok, (await c.result).ok]).toEqual([true, true]);
  });

  it('refuses a launcher that was told something else', async () => {
    const a = new Host(dynamic);
    await a.sees('start rank=0');
    await expect(new Host({ ...dynamic, nodes: 4 }).result).rejects.toThrow('another --nnodes: 3, not 4');
  });
});

for (const rendezvous of ['etcd', 'redis'] as const) {
  const missing = !isInstalled(rendezvous);
  const serve = async (...more: readonly string[]): Promise<Disposable> => {
    const data = mkdtempSync(join(tmpdir(), 'backwire-elastic-'));
    const flags = storeFlags(rendezvous, data, port, await freePort());
    const server = spawn(STORE_PROGRAMS[rendezvous], [...flags, ...more], { stdio: 'ignore' });
    return {
      [Symbol.dispose]: () => {
        server.kill('SIGKILL');
        rmSync(data, { recursive: true, force: true });
      },
    };
  };
  describe.skipIf(missing)(
    `over ${rendezvous}${missing ? ' (skipped: it is not installed)' : ''}`,
    { timeout: 60_000 },
    () => {
      it('any launcher may leave, the first too; the same name can be used again', async () => {
        using _ = await serve();
        const all = { nodes: 2, minNodes: 1, membership: 'dynamic' as const, rendezvous };
        const a = new Host(all);
        await a.sees('start rank=0');
        const b = new Host(all);
        await b.sees('start rank=1');
        a.abort.abort();
        await a.result;
        await b.sees('has left');
        end();
        expect((await b.result).ok).toBe(true);
        rmSync(join(folder, 'end'));
        const again = new Host(all);
        await again.sees('start rank=0');
        end();
        expect((await again.result).ok).toBe(true);
        const { store } = await openStore(`${rendezvous}://127.0.0.1:${port}`, { rank: 1, timeoutMs: 5_000 });
        expect([...(await store.list('')).keys()]).toEqual([]);
        await store.close();
      });

      it('of which an address says what host and port do not', async () => {
        const [flags, address] =
          rendezvous === 'redis'
            ? [['--requirepass', 'hunter2'], `redis://:hunter2@127.0.0.1:${port}/3`]
            : [[], `etcd://127.0.0.1:${await freePort()},127.0.0.1:${port}`];
        using _ = await serve(...flags);
        const all = { nodes: 2, rendezvous, rendezvousStore: address };
        const [a, b] = [new Host(all), new Host(all)];
        await Promise.any([a.sees('start rank=1'), b.sees('start rank=1')]);
        await expect.poll(() => storesOf(2)).toEqual([address, address]);
        end();
        expect([(await a.result).ok, (await b.result).ok]).toEqual([true, true]);
        expect(a.lines.concat(b.lines).join('\n')).not.toContain('hunter2');
      });

      it('a launcher that begins again at once waits for the lease of the one that was killed', async () => {
        using _ = await serve();
        const flags = ['--nnodes', '1', '--rdzv-backend', rendezvous, '--rdzv-endpoint', `127.0.0.1:${port}`];
        const child = spawn(
          process.execPath,
          [
            ...['--import', 'tsx', '--conditions=@backwire/source', join(import.meta.dirname, 'command.ts'), 'run'],
            ...[...flags, '--rdzv-id', 'elastic', '--no-python', join(folder, 'worker.sh'), folder],
          ],
          { stdio: 'ignore' },
        );
        await vi.waitFor(() => expect(pidOf(0)).toBeGreaterThan(0), { timeout: 25_000 });
        child.kill('SIGKILL');
        const again = new Host({ nodes: 1, rendezvous });
        await again.sees('the group has its 1 hosts already; waits for 10 s, in case one is gone');
        await again.sees('start rank=0');
        end();
        expect((await again.result).ok).toBe(true);
      });
    },
  );
}
