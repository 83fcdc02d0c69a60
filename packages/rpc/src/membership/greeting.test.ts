import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Greeting } from './greeting.ts';
import type { Peer } from '../session/peer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

let dialled: string[] = [];
function peer(name: string, { up = false, endpoints = ['an address'] } = {}): Peer {
  return { up, member: { endpoints }, want: () => void dialled.push(name) } as unknown as Peer;
}
function greetingOf(peers: readonly Peer[]): Greeting {
  return new Greeting(peers.length, () => peers);
}
/** Whether it is over, without waiting for it. */
async function isOver({ over }: Greeting): Promise<boolean> {
  return Promise.race([over.then(() => true), Promise.resolve().then(() => Promise.resolve(false))]);
}

describe('a greeting', () => {
  it('is over when all have answered that have no link yet; those with an address are dialled', async () => {
    dialled = [];
    const [linked, a, page] = [peer('linked', { up: true }), peer('a'), peer('page', { endpoints: [] })];
    const greeting = greetingOf([linked, a, page]);
    expect([dialled, await isOver(greeting)]).toEqual([['a'], false]);
    for (const [settled, over] of [
      [linked, false],
      [a, false],
      [a, false],
      [page, true],
    ] as const) {
      // prettier-ignore
      greeting.settled(settled);
      expect(await isOver(greeting)).toBe(over);
    }
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is over at once where nobody is there, or all are linked', async () => {
    for (const peers of [[], [peer('linked', { up: true })]]) expect(await isOver(greetingOf(peers))).toBe(true);
  });

  it.each([
    [64, 64],
    [65, 0],
  ])('of %i members dials %i of them: a large group hears of a worker from its store', async (members, dials) => {
    dialled = [];
    const greeting = greetingOf(Array.from({ length: members }, (_, i) => peer(`w${i}`)));
    expect([dialled.length, await isOver(greeting)]).toEqual([dials, dials === 0]);
    greeting.close();
  });

  it('waits a second for those that do not answer', async () => {
    const greeting = greetingOf([peer('a'), peer('stuck')]);
    vi.advanceTimersByTime(999);
    expect(await isOver(greeting)).toBe(false);
    vi.advanceTimersByTime(1);
    expect(await isOver(greeting)).toBe(true);
  });
});
