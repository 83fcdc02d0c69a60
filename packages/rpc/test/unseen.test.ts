/** @file Workers whose life or death nobody sees by a link: they die before anybody has called them, or merely look dead. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, namespacesMissing, TestNetwork } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Crew, meshed, SECRET, TENTH } from './crew.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  closing.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Told of the death, nobody waits for it at a barrier or at the end. */
async function doWithout(crew: Crew, dead: number, rest: readonly number[]): Promise<void> {
  await Promise.all(rest.map((rank) => crew.event(rank, `peer-down w${dead}`)));
  const met = await Promise.all(rest.map((rank) => crew.tell(rank, { do: 'barrier' })));
  expect(met.map(({ value }) => value)).toEqual(rest.map(() => 'met'));
  const ends = await Promise.all(rest.map((rank) => crew.tell(rank, { do: 'shutdown' })));
  expect(ends.map(({ value }) => value)).toEqual(rest.map(() => 'bye'));
}

describe('a worker that dies before anybody has a link to it', { timeout: 60_000 }, () => {
  it.each([2, 1])('is noticed on its host by those who wait for nothing: w%i', async (dead) => {
    await using crew = await Crew.start({ size: 3 });
    await crew.end(dead);
    await doWithout(
      crew,
      dead,
      crew.all.filter((rank) => rank !== dead),
    );
  });

  it('breaks a barrier that waits for it', async () => {
    await using crew = await Crew.start({ size: 3 });
    const waiting = [0, 1].map((rank) => crew.tell(rank, { do: 'barrier' }));
    await crew.end(2);
    expect((await Promise.all(waiting)).map(({ code }) => code)).toEqual(['barrier-broken', 'barrier-broken']);
  });

  it('is noticed when it served the store', async () => {
    await using crew = await Crew.start({ size: 3 });
    await crew.end(0);
    await doWithout(crew, 0, [1, 2]);
  });

  it('does not hold up a shutdown that has begun', async () => {
    await using crew = await Crew.start({ size: 3 });
    const ends = [0, 1].map((rank) => crew.tell(rank, { do: 'shutdown' }));
    await crew.end(2);
    expect((await Promise.all(ends)).map(({ value }) => value)).toEqual(['bye', 'bye']);
  });

  const missing = namespacesMissing();
  it.skipIf(missing)(
    missing === undefined
      ? 'is noticed on another host by its lease'
      : `is noticed on another host (skipped: ${missing})`,
    async () => {
      const network = new TestNetwork(3);
      closing.push(() => network[Symbol.dispose]());
      await using crew = await Crew.start({ size: 3, network, options: { liveness: TENTH } });
      await crew.end(2);
      await doWithout(crew, 2, [0, 1]);
    },
  );
});

describe('a worker that lives', { timeout: 60_000 }, () => {
  it.each([[['unix']], [['unix', 'tcp']]])('is not put out when its socket file is gone: %j', async (transports) => {
    const parent = directory();
    const home = (rank: number): string => join(parent, String(rank));
    for (const rank of [0, 1, 2]) mkdirSync(home(rank));
    const port = String(await freePort());
    await using crew = await Crew.start({
      size: 3,
      options: { transports },
      env: (rank) => ({ MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, BACKWIRE_SECRET: SECRET, TMPDIR: home(rank) }),
    });
    for (const name of readdirSync(home(1))) rmSync(join(home(1), name), { recursive: true });
    const answers = await Promise.all(
      [0, 2].map((rank) => crew.tell(rank, { do: 'call', to: 'w1', timeoutMs: 3_000 })),
    );
    for (const { value, code } of answers) {
      if (transports.length > 1) expect(value).toBe(7);
      else expect(code).toMatch(/unavailable|deadline-exceeded/);
    }
    // It reaches the others, so from then on they reach it too.
    expect((await crew.tell(1, { do: 'call', to: 'w0' })).value).toBe(7);
    expect((await crew.tell(1, { do: 'call', to: 'w2' })).value).toBe(7);
    expect(await crew.mesh()).toEqual(meshed(crew.all));
    expect(crew.all.map((rank) => crew.events(rank))).toEqual([[], [], []]);
  });

  it('and joined again in a store of files is waited for at the barriers after that', async () => {
    const store = `file://${directory()}`;
    const options = { store, liveness: TENTH, membership: 'dynamic' as const };
    await using crew = await Crew.start({ size: 3, options, env: { BACKWIRE_SECRET: SECRET } });
    for (let round = 0; round < 5; round++) {
      await crew.end(2);
      await crew.again(2);
      const met = await Promise.all(crew.all.map((rank) => crew.tell(rank, { do: 'barrier', timeoutMs: 10_000 })));
      expect(met.map(({ value, code }) => value ?? code)).toEqual(['met', 'met', 'met']);
    }
  });
});
