/** @file Launchers whose store, an etcd or a Redis, is away for a while, or comes back with nothing in it. Each host is a launch of this process. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts, isInstalled, STORE_PROGRAMS, storeFlags, type StoreProgram } from '@backwire/testing';
import { openStore } from '@backwire/rpc/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LaunchOptions } from '../src/index.ts';
import { decode, encode } from '../src/rendezvous-codec.ts';
import type { Rendezvous } from '../src/rendezvous.ts';
import { LaunchedHost } from './host.ts';

/** Waits to be told: the file `end` ends all, `end.<rank>` one, with the code inside. */
const WORKER = `#!/bin/sh
echo "start rank=$RANK of=$WORLD_SIZE restarts=$BACKWIRE_RESTART_COUNT"
while :; do
  if [ -f "$1/end.$RANK" ]; then code=$(cat "$1/end.$RANK"); rm "$1/end.$RANK"; echo "ends $RANK"; exit "$code"; fi
  if [ -f "$1/end" ]; then echo "ends $RANK"; exit 0; fi
  sleep 0.05
done
`;

let folder: string;
let data: string;
let ports: [port: number, peerPort: number];
let server: ChildProcess;
let hosts: LaunchedHost[] = [];
beforeEach(async () => {
  vi.stubEnv('BACKWIRE_SECRET', 'a secret of the hosts, long enough');
  folder = mkdtempSync(join(tmpdir(), 'backwire-outages-'));
  data = join(folder, 'data');
  mkdirSync(data);
  writeFileSync(join(folder, 'worker.sh'), WORKER, { mode: 0o755 });
  ports = (await freePorts(2)) as typeof ports;
});
afterEach(async () => {
  for (const host of hosts) host.abort.abort();
  await Promise.allSettled(hosts.map(({ result }) => result));
  hosts = [];
  server.kill('SIGKILL');
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function start(kind: StoreProgram, ...more: readonly string[]): void {
  const [port, peerPort] = ports;
  server = spawn(STORE_PROGRAMS[kind], [...storeFlags(kind, data, port, peerPort), ...more], { stdio: 'ignore' });
}

async function kill(): Promise<void> {
  const gone = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGKILL');
  await gone;
}

function host(rendezvous: StoreProgram, options: Partial<LaunchOptions>): LaunchedHost {
  const one = new LaunchedHost({
    program: join(folder, 'worker.sh'),
    args: [folder],
    masterAddr: '127.0.0.1',
    masterPort: ports[0],
    runId: 'outages',
    rendezvous,
    lastCallMs: 300,
    joinTimeoutMs: 30_000,
    ...options,
  });
  hosts.push(one);
  return one;
}

/** Waits until the hosts together have said `part` so many times. */
const said = (part: string, times: number): Promise<void> =>
  vi.waitFor(
    () => {
      const text = hosts.map((each) => each.text).join('');
      expect(text.split(part).length - 1, text).toBeGreaterThanOrEqual(times);
    },
    { timeout: 25_000, interval: 20 },
  );

/** In one piece: a worker may look at any moment. */
function end(rank?: number, code = 0): void {
  const draft = join(folder, 'draft');
  writeFileSync(draft, String(code));
  renameSync(draft, join(folder, rank === undefined ? 'end' : `end.${rank}`));
}

const results = async (): Promise<object[]> =>
  (await Promise.all(hosts.map(({ result }) => result))).map(({ exitCode, restarts }) => ({ exitCode, restarts }));

for (const kind of ['etcd', 'redis'] as const) {
  const missing = !isInstalled(kind);
  const title = `over ${kind}${missing ? ' (skipped: it is not installed)' : ''}`;
  /** What is written to it is there after a kill. */
  const durable = kind === 'redis' ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];

  describe.skipIf(missing)(title, { timeout: 90_000 }, () => {
    const fixed = { nodes: 2, membership: 'static' as const };

    async function twoHosts(options: Partial<LaunchOptions>): Promise<void> {
      start(kind, ...durable);
      host(kind, options);
      host(kind, options);
      await said('start rank', 2);
    }

    it('workers that finish while it is away have finished', async () => {
      await twoHosts(fixed);
      await kill();
      end();
      await said('ends ', 2);
      await sleep(2_500);
      start(kind, ...durable);
      expect(await results()).toEqual([
        { exitCode: 0, restarts: 0 },
        { exitCode: 0, restarts: 0 },
      ]);
    });

    it('a worker that fails meanwhile ends the group, or begins it again, and is not started by itself', async () => {
      await twoHosts({ ...fixed, maxRestarts: 1 });
      await kill();
      end(1, 7);
      await said('ends 1', 1);
      await sleep(3_500);
      expect(
        hosts
          .map(({ text }) => text)
          .join('')
          .split('start rank'),
      ).toHaveLength(3);
      start(kind, ...durable);
      await said('restarts=1', 2);
      end(1, 9);
      const found = await results();
      expect(found).toContainEqual({ exitCode: 9, restarts: 1 });
      expect(found).toContainEqual({ exitCode: 1, restarts: 1 });
    });

    it('a worker of a dynamic group that fails meanwhile is replaced once it is back', async () => {
      await twoHosts({ nodes: 2, minNodes: 1, membership: 'dynamic', maxRestarts: 3 });
      await kill();
      end(1, 7);
      await said('ends 1', 1);
      await sleep(1_000);
      start(kind, ...durable);
      await said('start rank=2', 1);
      end();
      expect(await results()).toEqual([
        { exitCode: 0, restarts: 0 },
        { exitCode: 0, restarts: 0 },
      ]);
      expect(hosts.map(({ text }) => text).join('')).toContain('takes its place (1 of 3)');
    });

    it('nobody is given up whose lease nobody could renew', async () => {
      await twoHosts(fixed);
      server.kill('SIGSTOP');
      await sleep(13_000);
      server.kill('SIGCONT');
      await sleep(2_000);
      end();
      expect(await results()).toEqual([
        { exitCode: 0, restarts: 0 },
        { exitCode: 0, restarts: 0 },
      ]);
    });

    it('one that has lost everything is told the state of the group again', async () => {
      await twoHosts({ ...fixed, maxRestarts: 1 });
      await kill();
      rmSync(data, { recursive: true });
      mkdirSync(data);
      start(kind);
      await sleep(5_000);
      // What comes after is agreed as before.
      end(1, 7);
      await said('restarts=1', 2);
      end();
      expect(await results()).toEqual([
        { exitCode: 0, restarts: 1 },
        { exitCode: 0, restarts: 1 },
      ]);
    });

    it('workers have finished, also where another host that did not know yet told the store the state again', async () => {
      await twoHosts(fixed);
      const { store } = await openStore(`${kind}://127.0.0.1:${ports[0]}`);
      try {
        const key = 'launcher/outages/rendezvous';
        const before = decode((await store.get(key)) as Uint8Array) as Rendezvous;
        end(1);
        let now: Uint8Array = new Uint8Array();
        await vi.waitFor(
          async () => {
            now = (await store.get(key)) ?? now;
            expect(decode(now)?.hosts.filter(({ done }) => done)).toHaveLength(1);
          },
          { timeout: 25_000, interval: 20 },
        );
        const { version } = decode(now) as Rendezvous;
        const told = await store.compareAndSet(key, now, encode({ ...before, version: version + 1 }));
        expect(told.ok).toBe(true);
        end(0);
        const ended = Promise.all(hosts.map(async ({ result }) => (await result).exitCode));
        expect(await Promise.race([ended, sleep(20_000)])).toEqual([0, 0]);
      } finally {
        await store.close();
      }
    });
  });
}
