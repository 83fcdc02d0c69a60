/** @file The meetings that one member collects for: who is expected, who has come, when all go on or nobody does. */

/** The function that members call on the one that collects. */
export const ARRIVE = 'rpc/arrive';

import { lineOfKey } from './meeting-keys.ts';

/** A member may have opened so many times as many rounds as are free. */
const SHARE = 7;

/** Why an arrival ended without the others. */
type Broken = { readonly gone: string; readonly arrived: readonly string[] };

/** What has to be done; arrivals are the caller's own tokens. */
export type MeetingEffect<A> =
  | { readonly type: 'released'; readonly arrivals: ReadonlyMap<string, A> }
  | { readonly type: 'broken'; readonly arrivals: ReadonlyMap<string, A>; readonly why: Broken }
  | { readonly type: 'left'; readonly name: string; readonly arrival: A };

/** One meeting. Its members are fixed when the first of them arrives; who joins the group later is waited for only where that is told. */
interface Round<A> {
  readonly key: string;
  /** Its line of meetings, if it has one. */
  readonly line: string | undefined;
  readonly expected: Set<string>;
  readonly arrivals: Map<string, A>;
  /** Those who arrived, also when they did not wait to the end. */
  readonly came: Set<string>;
  /** Who arrived first. */
  readonly opener: string;
  /** Goes on without those who die or leave. */
  readonly survive: boolean;
}

/** What opens a round when nobody has arrived at it yet. */
export interface Opening {
  /** Everybody who has to come; the one that arrives belongs to it in any case. */
  readonly expected: Iterable<string>;
  readonly survive: boolean;
}

/**
 * The rounds of all meetings by key. A round is released when everybody expected has arrived, and broken when one of them goes before
 * that. Somebody who arrives twice at one key opens the next round of it.
 */
export class Meetings<A> {
  private readonly rounds: Round<A>[] = [];

  get size(): number {
    return this.rounds.length;
  }

  /** Whether `from` may open another round where `most` may be open: seven times as many as it leaves to others, so that no member takes all. */
  mayOpen(from: string, most: number): boolean {
    const free = most - this.rounds.length;
    let own = 0;
    for (const { opener } of this.rounds) if (opener === from) own++;
    return free > 0 && own < SHARE * free;
  }

  /** Whether `from` would arrive at a round that is open already. */
  isOpen(key: string, from: string): boolean {
    return this.find(key, from) !== undefined;
  }

  arrive(key: string, from: string, arrival: A, opening: () => Opening): MeetingEffect<A>[] {
    let round = this.find(key, from);
    if (round === undefined) {
      const { expected, survive } = opening();
      round = {
        key,
        line: lineOfKey(key),
        expected: new Set(expected).add(from),
        arrivals: new Map(),
        came: new Set(),
        opener: from,
        survive,
      };
      this.rounds.push(round);
    }
    round.arrivals.set(from, arrival);
    round.came.add(from);
    return this.advance(round);
  }

  /** Those who wait at the round that `from` would arrive at. */
  waiting(key: string, from: string): ReadonlyMap<string, A> {
    return this.find(key, from)?.arrivals ?? new Map<string, A>();
  }

  /** Those who wait at other rounds of a meeting's line that `from` has not come to, by the keys of these. */
  beside(key: string, from: string): { readonly key: string; readonly arrivals: ReadonlyMap<string, A> }[] {
    const line = lineOfKey(key);
    if (line === undefined) return [];
    return this.rounds.filter((open) => open.line === line && open.expected.has(from) && !open.arrivals.has(from));
  }

  /** Whom `from` waits for at a meeting, each with the key of the meeting at which that one waits itself. */
  missing(key: string, from: string): { readonly name: string; readonly waitsAt: string | undefined }[] {
    const round = this.rounds.find((open) => open.key === key && open.arrivals.has(from));
    if (round === undefined) return [];
    return [...round.expected]
      .filter((name) => !round.arrivals.has(name))
      .sort()
      .map((name) => ({ name, waitsAt: this.rounds.find(({ arrivals }) => arrivals.has(name))?.key }));
  }

  /** Ends that round for all who wait at it, and returns them: what `from` brings does not go with what they brought. */
  breakUp(key: string, from: string): A[] {
    const round = this.find(key, from);
    if (round === undefined) return [];
    this.drop(round);
    return [...round.arrivals.values()];
  }

  /** Ends the rounds of a line at which somebody waits with what `is` means, for all who wait there, and returns them. */
  breakInLine(line: string, is: (key: string, arrival: A) => boolean): A[] {
    const over = this.rounds.filter(
      (open) => open.line === line && [...open.arrivals.values()].some((arrival) => is(open.key, arrival)),
    );
    for (const round of over) this.drop(round);
    return over.flatMap(({ arrivals }) => [...arrivals.values()]);
  }

  /**
   * Takes an arrival back. The names that never came to its round, or else those that came and did not wait; undefined when it is over
   * already.
   */
  withdraw(from: string, arrival: A): readonly string[] | undefined {
    const round = this.rounds.find(({ arrivals }) => arrivals.get(from) === arrival);
    if (round === undefined) return undefined;
    const missing = missingAt(round);
    round.arrivals.delete(from);
    if (round.arrivals.size === 0) this.drop(round);
    return missing;
  }

  /** A member died or left, or is merely out of reach: whoever waits for it is told, or goes on without it. */
  gone(name: string, onlyUnreachable = false): MeetingEffect<A>[] {
    const effects: MeetingEffect<A>[] = [];
    for (const round of [...this.rounds]) {
      if (!round.expected.has(name) || (onlyUnreachable && !round.survive)) continue;
      if (round.survive) {
        const arrival = round.arrivals.get(name);
        if (arrival !== undefined) effects.push({ type: 'left', name, arrival });
        round.expected.delete(name);
        round.arrivals.delete(name);
        effects.push(...this.advance(round));
        continue;
      }
      this.drop(round);
      const arrived = [...round.arrivals.keys()].sort();
      effects.push({ type: 'broken', arrivals: round.arrivals, why: { gone: name, arrived } });
    }
    return effects;
  }

  /** A member joined, maybe in the place of one that is gone: rounds that go on without the gone wait for it. */
  joined(name: string): void {
    for (const round of this.rounds) if (round.survive) round.expected.add(name);
  }

  /** Ends the rounds that go on without the gone: another member collects for them from now on. The arrivals that waited. */
  handOver(): A[] {
    const over = this.rounds.filter(({ survive }) => survive);
    for (const round of over) this.drop(round);
    return over.flatMap(({ arrivals }) => [...arrivals.values()]);
  }

  /** As `handOver`, by one that waits itself no more: whoever waited is told for whom. */
  giveUp(): { readonly arrivals: readonly A[]; readonly missing: readonly string[] }[] {
    const over = this.rounds.filter(({ survive }) => survive);
    for (const round of over) this.drop(round);
    return over.map((round) => ({ arrivals: [...round.arrivals.values()], missing: missingAt(round) }));
  }

  /** Ends all rounds; the arrivals that waited. */
  close(): A[] {
    return this.rounds.splice(0).flatMap(({ arrivals }) => [...arrivals.values()]);
  }

  private find(key: string, from: string): Round<A> | undefined {
    return this.rounds.find((open) => open.key === key && open.expected.has(from) && !open.arrivals.has(from));
  }

  private advance(round: Round<A>): MeetingEffect<A>[] {
    for (const name of round.expected) if (!round.arrivals.has(name)) return [];
    this.drop(round);
    // Everybody may have gone from a round that goes on without them.
    return round.arrivals.size === 0 ? [] : [{ type: 'released', arrivals: round.arrivals }];
  }

  private drop(round: Round<A>): void {
    const at = this.rounds.indexOf(round);
    if (at >= 0) this.rounds.splice(at, 1);
  }
}

/** The names that never came to a round, or else those that came and did not wait. */
function missingAt({ expected, came, arrivals }: Round<unknown>): string[] {
  const without = (seen: { has(name: string): boolean }): string[] =>
    [...expected].filter((name) => !seen.has(name)).sort();
  const never = without(came);
  return never.length > 0 ? never : without(arrivals);
}
