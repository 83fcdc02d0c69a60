/** @file The agreed state of several launchers, in every order of events that a seed thinks of. */
import { describe, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { decode, encode } from './rendezvous-codec.ts';
import * as steps from './rendezvous.ts';
import type { Rendezvous, Terms } from './rendezvous.ts';

const host = (id: string, processes = 1, order: number | null = null) => ({ id, name: `host-${id}`, order, processes });

function must(result: Rendezvous | steps.Refusal): Rendezvous {
  if (steps.isRefusal(result)) throw new Error(result.refused);
  return result;
}

describe('a rendezvous', () => {
  const fixed: Terms = { membership: 'static', least: 2, most: 2, maxRestarts: 0 };

  it('orders hosts by their numbers, and refuses a number twice and one host too many', () => {
    let state = must(steps.arrive(steps.opened(fixed, 't'), host('b', 2, 1), fixed));
    expect(steps.arrive(state, host('c', 1, 1), fixed)).toEqual({
      refused: 'host number 1 is taken by host-b',
      mayPass: true,
    });
    expect(steps.start(state)).toBe(state);
    state = steps.start(must(steps.arrive(state, host('a', 3, 0), fixed)));
    expect(state.hosts.map(({ id, firstRank }) => [id, firstRank])).toEqual([
      ['a', 0],
      ['b', 3],
    ]);
    expect(steps.arrive(state, host('d'), fixed)).toEqual({
      refused: 'the group has its 2 hosts already',
      mayPass: true,
    });
  });

  it('ignores what belongs to a round that is over', () => {
    const terms: Terms = { membership: 'static', least: 1, most: 3, maxRestarts: 5 };
    let state = steps.start(must(steps.arrive(steps.opened(terms, 't'), host('a'), terms)));
    state = steps.reform(must(steps.arrive(state, host('b'), terms)), 0, 'b joins');
    expect([state.round, state.hosts.length, state.restarts]).toEqual([1, 2, 0]);
    expect(steps.fail(state, 0, 'a', 'old news')).toBe(state);
    expect(steps.finish(state, 0, 'a')).toBe(state);
    expect(steps.reform(state, 0, 'again')).toBe(state);
  });

  it('reads what it wrote, and nothing else', () => {
    const state = must(steps.arrive(steps.opened(fixed, 't'), host('a'), fixed));
    expect(decode(encode(state))).toEqual(state);
    for (const text of ['', 'null', '[]', '{"phase":"running"}', JSON.stringify({ ...state, hosts: [{ id: 1 }] })])
      expect(decode(Buffer.from(text))).toBeUndefined();
  });

  it.each(['static', 'dynamic'] as const)('keeps its word in 400 random lives (%s)', (membership) => {
    for (let seed = 0; seed < 400; seed++) live(seed, membership);
  });
});

/** One life of a group, with what must hold after every step. */
function live(seed: number, membership: 'static' | 'dynamic'): void {
  const random = new Random(seed);
  const least = random.int(1, 3);
  const terms: Terms = { membership, least, most: random.int(least, 5), maxRestarts: random.int(0, 3) };
  let state = steps.opened(terms, 't');
  const ranksGiven = new Set<number>();
  const where = `seed ${seed}`;
  for (let i = 0; i < 60; i++) {
    const before = state;
    const someone = random.pick([...state.hosts, ...state.waiting, host('nobody')]).id;
    const round = state.round - (random.chance(0.1) ? 1 : 0);
    const arrived = steps.arrive(state, host(`h${i}`, random.int(1, 3)), terms);
    const choices: (() => Rendezvous)[] = [
      () => (steps.isRefusal(arrived) ? state : arrived),
      () => steps.start(state),
      () => steps.reform(state, round, 'growth'),
      () => steps.lose(state, someone, 'lost'),
      () => steps.fail(state, round, someone, 'failed'),
      () => steps.finish(state, round, someone),
      () => {
        const why = `[rank${i}] killed`;
        const replaced = steps.replace(state, someone, why);
        if (replaced === undefined) return state;
        expect([steps.replacement(state, why), steps.replacement(replaced.state, why)], where).toEqual([
          undefined,
          replaced.rank,
        ]);
        expect(ranksGiven.has(replaced.rank), where).toBe(false);
        ranksGiven.add(replaced.rank);
        return replaced.state;
      },
    ];
    state = random.pick([choices[0], choices[0], ...choices] as (() => Rendezvous)[])();
    const active = state.hosts.filter(({ done }) => !done);
    const ids = [...state.hosts, ...state.waiting].map(({ id }) => id);
    expect(new Set(ids).size, where).toBe(ids.length);
    expect(state.restarts, where).toBeLessThanOrEqual(terms.maxRestarts);
    expect(active.length, where).toBeLessThanOrEqual(terms.most);
    expect(state.round, where).toBeGreaterThanOrEqual(before.round);
    if (before.phase === 'closed') expect(state, where).toBe(before);
    if (state.phase !== 'running') continue;
    if (!state.hosts.some(({ done }) => done)) expect(state.hosts.length, where).toBeGreaterThanOrEqual(least);
    const ranks = state.hosts.flatMap(({ firstRank, processes }) =>
      Array.from({ length: processes }, (_, n) => firstRank + n),
    );
    expect(new Set(ranks).size, where).toBe(ranks.length);
    if (membership === 'static')
      expect(
        [...ranks].sort((a, b) => a - b),
        where,
      ).toEqual(ranks.map((_, n) => n));
    for (const one of state.hosts) {
      if (membership === 'static' || before.hosts.some(({ id }) => id === one.id)) continue;
      for (let n = 0; n < one.processes; n++) {
        expect(ranksGiven.has(one.firstRank + n), where).toBe(false);
        ranksGiven.add(one.firstRank + n);
      }
    }
    // The workers of a round that goes on are left alone.
    if (membership === 'static' && before.phase === 'running' && before.round === state.round)
      expect(state.hosts.map(({ id, firstRank }) => [id, firstRank])).toEqual(
        before.hosts.map(({ id, firstRank }) => [id, firstRank]),
      );
  }
}
