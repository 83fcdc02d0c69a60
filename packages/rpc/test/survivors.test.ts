/** @file What a group does while its store is away, and with a worker that dies or stands still then; processes of their own. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, STORE_PROGRAMS, storeFlags } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { openStore } from '../src/stores/open.ts';
import { serveStore } from '../src/stores/embedded-server.ts';
import { Crew, meshed, SECRET, TENTH } from './crew.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Longer than it took, at a tenth of the defaults, until all survivors had been fenced. */
const WATCHED_MS = 3_500;

/** Everybody reaches everybody for a while, and nobody is told anything that is not in `allowed`. */
async function goOn(crew: Crew, ranks: readonly number[], forMs = WATCHED_MS): Promise<void> {
  const end = performance.now() + forMs;
  do {
    expect(await crew.mesh(ranks)).toEqual(meshed(ranks));
    await new Promise((resolve) => setTimeout(resolve, 200));
  } while (performance.now() < end);
}

describe('the worker that serves the store', { timeout: 90_000 }, () => {
  it('may be killed: the others go on, agree that it is gone, and take it back when it is started again', async () => {
    await using crew = await Crew.start({ size: 3, options: { liveness: TENTH } });
    await crew.mesh();
    await crew.end(0);
    await Promise.all([1, 2].map((rank) => crew.event(rank, 'peer-down w0')));
    await goOn(crew, [1, 2]);
    const met = await Promise.all([1, 2].map((rank) => crew.tell(rank, { do: 'barrier' })));
    expect(met.map(({ value }) => value)).toEqual(['met', 'met']);
    await crew.again(0);
    await Promise.all([1, 2].map((rank) => crew.event(rank, 'peer-joined w0')));
    await goOn(crew, [0, 1, 2], 0);
    const all = await Promise.all(crew.all.map((rank) => crew.tell(rank, { do: 'barrier' })));
    expect(all.map(({ value }) => value)).toEqual(['met', 'met', 'met']);
    expect([1, 2].map((rank) => crew.events(rank))).toEqual([
      ['peer-down w0', 'peer-joined w0'],
      ['peer-down w0', 'peer-joined w0'],
    ]);
  });

  it('is taken back when it is started again at once', async () => {
    await using crew = await Crew.start({ size: 3, options: { liveness: TENTH } });
    await crew.mesh();
    await crew.end(0);
    await crew.again(0);
    await Promise.all([1, 2].map((rank) => crew.event(rank, 'peer-joined w0')));
    await goOn(crew, [0, 1, 2]);
    for (const rank of [1, 2]) expect(crew.events(rank)).toEqual(['peer-down w0', 'peer-joined w0']);
  });

  it.each([
    ['computes for longer than silence is allowed', 2, 1_550, 'block'],
    ['computes for longer than silence is allowed', 3, 2_000, 'block'],
    ['is stopped for twice that time', 2, 3_000, 'stop'],
    ['is stopped for twice that time', 3, 3_000, 'stop'],
  ] as const)('%s, in a group of %i: nobody is put out and nobody stops', async (_what, size, ms, how) => {
    await using crew = await Crew.start({ size, options: { liveness: TENTH } });
    await crew.mesh();
    const others = crew.all.slice(1);
    const still = how === 'block' ? crew.tell(0, { do: 'block', ms }) : undefined;
    if (how === 'stop') crew.kill(0, 'SIGSTOP');
    await goOn(crew, others, ms);
    if (how === 'stop') crew.kill(0, 'SIGCONT');
    await still;
    await goOn(crew, crew.all, 2_500);
    expect(crew.all.flatMap((rank) => crew.events(rank))).toEqual([]);
    const met = await Promise.all(crew.all.map((rank) => crew.tell(rank, { do: 'barrier' })));
    expect(met.every(({ value }) => value === 'met')).toBe(true);
  });
});

interface Outside {
  readonly address: string;
  kill(): Promise<void>;
  restart(): Promise<void>;
}

/** A store that is no worker's, to be killed and started again. */
async function outside(kind: 'embedded' | 'redis' | 'etcd'): Promise<Outside> {
  const [port, peerPort] = [await freePort(), await freePort()];
  if (kind === 'embedded') {
    const serve = () => serveStore({ port, secret: SECRET });
    let server = await serve();
    closing.push(() => server.close());
    const restart = async (): Promise<void> => void (server = await serve());
    return { address: `tcp://127.0.0.1:${port}`, kill: () => server.close(), restart };
  }
  const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  closing.push(() => rmSync(directory, { recursive: true, force: true }));
  const flags = storeFlags(kind, directory, port, peerPort);
  const address = `${kind}://127.0.0.1:${port}`;
  let child: ChildProcess;
  const launch = async (): Promise<void> => {
    child = spawn(STORE_PROGRAMS[kind], flags, { stdio: 'ignore' });
    const { store } = await openStore(address, { timeoutMs: 30_000 });
    await store.close();
  };
  await launch();
  closing.push(() => child.kill('SIGKILL'));
  const kill = async (): Promise<void> => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  };
  return { address, kill, restart: launch };
}

const STORES = [
  { kind: 'embedded', program: undefined, memory: 'with nothing in it' },
  { kind: 'redis', program: 'redis-server', memory: 'with nothing in it' },
  { kind: 'etcd', program: 'etcd', memory: 'as it was' },
] as const;

for (const { kind, program, memory } of STORES) {
  const missing = program !== undefined && spawnSync('which', [program]).status !== 0;
  const title = `a store that is away (${kind}${missing ? `, skipped: no ${program} on this machine` : ''})`;
  describe.skipIf(missing)(title, { timeout: 120_000 }, () => {
    it(`and one of four is killed: the others go on, agree on it, and write it when the store is back ${memory}`, async () => {
      const store = await outside(kind);
      // etcd's leases last two seconds at least.
      const liveness = kind === 'etcd' ? { ...TENTH, leaseMs: 2_000 } : TENTH;
      await using crew = await Crew.start({
        size: 4,
        options: { liveness, store: store.address },
        env: { BACKWIRE_SECRET: SECRET, BACKWIRE_STORE_HOSTED: '1' },
      });
      await crew.mesh();
      await store.kill();
      await goOn(crew, crew.all, 1_000);
      await crew.end(3);
      const rest = [0, 1, 2];
      await Promise.all(rest.map((rank) => crew.event(rank, 'peer-down w3')));
      await goOn(crew, rest);
      const met = await Promise.all(rest.map((rank) => crew.tell(rank, { do: 'barrier' })));
      expect(met.map(({ value }) => value)).toEqual(['met', 'met', 'met']);
      await store.restart();
      await crew.again(3);
      await Promise.all(rest.map((rank) => crew.event(rank, 'peer-joined w3')));
      await goOn(crew, crew.all, 2_500);
      for (const rank of rest) expect(crew.events(rank)).toEqual(['peer-down w3', 'peer-joined w3']);
      const all = await Promise.all(crew.all.map((rank) => crew.tell(rank, { do: 'barrier' })));
      expect(all.every(({ value }) => value === 'met')).toBe(true);
    });
  });
}
