/** @file Slow networks: what takes longer than a silent peer may is not cut off, and small calls do not wait for large ones. */
import { TestNetwork, throttlingMissing } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from './cluster.ts';
import { Crew, FIFTH } from './crew.ts';

const missing = throttlingMissing();
const title = missing === undefined ? 'a slow link' : `a slow link (skipped: ${missing})`;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const BITS_PER_SECOND = 4_000_000;
/** Takes five seconds and more: a silent peer has three. */
const BYTES = 2.5 * 2 ** 20;
/** What a small call may wait: a twentieth of the large one's time. */
const SMALL_MS = 400;

/** Two workers on a host each, with a slow way from the first to the second. */
async function set(): Promise<Crew> {
  const network = new TestNetwork(2);
  closing.push(() => network[Symbol.dispose]());
  const crew = await Crew.start({ size: 2, network, options: { liveness: FIFTH } });
  closing.push(() => crew[Symbol.asyncDispose]());
  for (const rank of [0, 1]) expect((await crew.tell(rank, { do: 'call', to: `w${1 - rank}` })).value).toBe(7);
  network.throttle(0, BITS_PER_SECOND);
  return crew;
}

/** Waits until a tenth of the tensor has come. */
async function underWay(crew: Crew, rank: number): Promise<void> {
  const come = async (): Promise<number> => Number((await crew.tell(rank, { do: 'received' })).value);
  await until(async () => (await come()) > BYTES / 10, 'a tenth of the tensor has come', 20_000);
}

async function unbroken(crew: Crew): Promise<void> {
  for (const rank of crew.all) {
    expect(crew.events(rank)).toEqual([]);
    expect((await crew.tell(rank, { do: 'reconnects' })).value).toBe(0);
  }
}

describe.skipIf(missing)(title, { timeout: 60_000 }, () => {
  it('carries a tensor for longer than a silent peer may be, and small calls pass it both ways', async () => {
    const crew = await set();
    const large = crew.tell(0, { do: 'give', to: 'w1', bytes: BYTES });
    await underWay(crew, 1);
    const [there, back] = await Promise.all([
      crew.tell(0, { do: 'probe', to: 'w1', ms: 3_000 }),
      crew.tell(1, { do: 'probe', to: 'w0', ms: 3_000 }),
    ]);
    const answer = await large;
    expect(answer).toMatchObject({ value: BYTES });
    const { ms } = answer;
    expect(ms).toBeGreaterThan(4_000);
    expect(ms).toBeLessThan(20_000);
    expect(Number(there.value)).toBeLessThan(SMALL_MS);
    expect(Number(back.value)).toBeLessThan(SMALL_MS);
    await unbroken(crew);
  });

  it('carries the tensor of an answer likewise', async () => {
    const crew = await set();
    const large = crew.tell(1, { do: 'take', to: 'w0', bytes: BYTES });
    await underWay(crew, 1);
    const small = await crew.tell(1, { do: 'probe', to: 'w0', ms: 3_000 });
    expect(await large).toMatchObject({ value: BYTES });
    expect(Number(small.value)).toBeLessThan(SMALL_MS);
    await unbroken(crew);
  });

  it('carries what goes in one piece: bytes that arrive are acknowledged before they are a message', async () => {
    const crew = await set();
    const answer = await crew.tell(0, { do: 'text', to: 'w1', bytes: BYTES });
    expect(answer).toMatchObject({ value: BYTES });
    expect(answer.ms).toBeGreaterThan(4_000);
    await unbroken(crew);
  });
});
