/** @file Cut networks: hosts in namespaces of their own, and who of a group goes on. */
import { freePort, namespacesMissing, TestCluster, TestNetwork } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Crew, meshed, SECRET, FIFTH } from './crew.ts';

const missing = namespacesMissing();
const title = missing === undefined ? 'a cut network' : `a cut network (skipped: ${missing})`;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Cut {
  readonly network: TestNetwork;
  readonly crew: Crew;
  /** The store; its host is the one after the last worker's. */
  readonly store: TestCluster;
  /** The ranks from the oldest life to the youngest. */
  readonly byAge: readonly number[];
}

/** A worker on each of `size` hosts, and the store on one more, all of which know each other. */
async function set(size: number): Promise<Cut> {
  const network = new TestNetwork(size + 1);
  closing.push(() => network[Symbol.dispose]());
  const [host, port] = [network.address(size), String(await freePort())];
  const store = new TestCluster({
    program: new URL('./store.ts', import.meta.url),
    worldSize: 1,
    args: [host, port],
    env: { BACKWIRE_SECRET: SECRET },
    through: () => network.inside(size),
  });
  closing.push(() => store.dispose());
  await store.worker(0).line(/^serves/);
  const crew = await Crew.start({
    size,
    network,
    options: { liveness: FIFTH, store: `tcp://${host}:${port}` },
    env: { BACKWIRE_SECRET: SECRET, BACKWIRE_STORE_HOSTED: '1' },
  });
  closing.push(() => crew[Symbol.asyncDispose]());
  expect(await crew.mesh()).toEqual(meshed(crew.all));
  const lives = await Promise.all(crew.all.map((rank) => crew.tell(rank, { do: 'debug', key: 'agent.incarnation' })));
  const byAge = [...crew.all].sort((a, b) => Number(lives[a]?.value) - Number(lives[b]?.value));
  return { network, crew, store, byAge };
}

/** The workers of `stay` go on, those of `stop` are put out or stop. */
async function parted(crew: Crew, stay: readonly number[], stop: readonly number[]): Promise<void> {
  await Promise.all(stop.map((rank) => crew.event(rank, 'fenced')));
  await Promise.all(stay.flatMap((rank) => stop.map((gone) => crew.event(rank, `peer-down w${gone}`))));
  expect(await crew.mesh(stay)).toEqual(meshed(stay));
  for (const rank of stay) expect(crew.events(rank).sort()).toEqual(stop.map((gone) => `peer-down w${gone}`).sort());
}

describe.skipIf(missing)(title, { timeout: 90_000 }, () => {
  describe('with a store that everybody reaches', () => {
    it('in two halves: the half of the oldest stays, the other is put out', async () => {
      const { network, crew, byAge } = await set(4);
      const [oldest = 0] = byAge;
      const stay = [oldest, (oldest + 1) % 4].sort();
      const stop = crew.all.filter((rank) => !stay.includes(rank));
      network.cut(stay, stop);
      await parted(crew, stay, stop);
    });

    it('between all of three: the oldest stays, the others are put out', async () => {
      const { network, crew, byAge } = await set(3);
      network.part(crew.all);
      await parted(crew, byAge.slice(0, 1), byAge.slice(1));
    });

    it('between two of three: their calls fail, nobody is put out, and all is well when it is mended', async () => {
      const { network, crew } = await set(3);
      network.cut([0], [1]);
      const [there, back] = await Promise.all([
        crew.tell(0, { do: 'call', to: 'w1' }),
        crew.tell(1, { do: 'call', to: 'w0' }),
      ]);
      expect([there?.code, back?.code]).toEqual(['unavailable', 'unavailable']);
      const end = performance.now() + 5_000;
      while (performance.now() < end) {
        expect(await crew.mesh([0, 2])).toEqual(meshed([0, 2]));
        expect(await crew.mesh([1, 2])).toEqual(meshed([1, 2]));
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      network.mend([0], [1]);
      await expect.poll(() => crew.mesh(crew.all, 2_000), { timeout: 30_000, interval: 200 }).toEqual(meshed(crew.all));
      expect(crew.all.map((rank) => crew.events(rank))).toEqual([[], [], []]);
    });
  });

  it('one of three alone, and the store with nobody: the two go on, the one stops, and the two write it when the store is back', async () => {
    const { network, crew, store } = await set(3);
    network.cut([3], [0, 1, 2]);
    network.cut([2], [0, 1]);
    await parted(crew, [0, 1], [2]);
    expect((await crew.tell(2, { do: 'call', to: 'w0' })).text).toMatch(
      /cut off from the store and from most of its group: its store was out of reach for \d+\.\d s/,
    );
    network.mend([3], [0, 1, 2]);
    network.mend([2], [0, 1]);
    await crew.end(2);
    await crew.again(2);
    await Promise.all([0, 1].map((rank) => crew.event(rank, 'peer-joined w2')));
    expect(await crew.mesh()).toEqual(meshed(crew.all));
    expect(store.worker(0).status).toBeUndefined();
  });

  it('with the store on one side: that side stays, half as it is, and the other stops', async () => {
    const { network, crew } = await set(4);
    network.cut([0, 1, 4], [2, 3]);
    await parted(crew, [0, 1], [2, 3]);
  });

  it('in one direction: nobody is lost who is heard by way of another', async () => {
    const { network, crew } = await set(3);
    network.cutOneWay(0, 1);
    expect((await crew.tell(0, { do: 'call', to: 'w1' })).code).toBe('unavailable');
    expect(await crew.mesh([0, 2])).toEqual(meshed([0, 2]));
    expect(await crew.mesh([1, 2])).toEqual(meshed([1, 2]));
    expect(crew.all.map((rank) => crew.events(rank))).toEqual([[], [], []]);
  });
});
