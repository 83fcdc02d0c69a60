/** @file What must hold of a simulated group in doubt, known from outside. */
import type { Simulation } from '@backwire/testing';
import { isRestored } from '../../src/protocol/histories.ts';
import { lifeOf, type Life, type Membership, type View } from '../../src/protocol/membership.ts';
import { SETTLE_MS, type Episode } from './scenario.ts';

/** Counts of what happened, so that a run that never got anywhere is seen. */
export interface DoubtCounts {
  joins: number;
  evicted: number;
  decided: number;
  fenced: number;
  stopped: number;
  restored: number;
}

export class DoubtOracle {
  readonly counts: DoubtCounts = { joins: 0, evicted: 0, decided: 0, fenced: 0, stopped: 0, restored: 0 };
  private readonly simulation: Simulation;
  private readonly episodes: readonly Episode[];
  /** The members that live, by the node that each runs at. */
  private readonly live = new Map<string, { readonly life: Life; readonly membership: Membership }>();
  private latest: View | undefined;

  constructor(simulation: Simulation, episodes: readonly Episode[]) {
    this.simulation = simulation;
    this.episodes = episodes;
  }

  lifeAt(node: string): Life | undefined {
    return this.live.get(node)?.life;
  }

  began(node: string, life: Life, membership: Membership): void {
    this.live.set(node, { life, membership });
    this.counts.joins++;
  }

  /** A process ended, with all that it knew. */
  crashed(node: string): void {
    this.live.delete(node);
  }

  /** The store's view changes. */
  changed(before: View, next: View): void {
    if (next.epoch <= before.epoch)
      this.simulation.fail('views are totally ordered', `epoch ${next.epoch} after ${before.epoch}`);
    if (this.latest !== undefined && isRestored(this.latest, next)) this.counts.restored++;
    const known = new Set(before.departed.map(lifeOf));
    for (const gone of next.departed) {
      const life = lifeOf(gone);
      if (known.has(life)) continue;
      this.counts.evicted++;
      this.excuse(life, `is put out by ${gone.by ?? 'one that joins'}`);
    }
    this.latest = next;
  }

  /** Members have decided something without the store. */
  decided(life: Life, lives: readonly Life[], membership: Membership): void {
    this.counts.decided++;
    for (const gone of lives) this.excuse(gone, `is put out by ${life}`);
    const mine = [...membership.unwritten.keys()];
    for (const other of this.live.values()) {
      if (other.membership.stored !== membership.stored) continue;
      const theirs = [...other.membership.unwritten.keys()];
      const [few, many] = mine.length <= theirs.length ? [mine, theirs] : [theirs, mine];
      if (!few.every((each) => many.includes(each)))
        this.simulation.fail(
          'decisions contain each other',
          `${life} decided on ${mine.join()}, ${other.life} on ${theirs.join()}`,
        );
    }
  }

  /** A member has ended by itself. */
  ended(node: string, life: Life, how: 'fenced' | 'stop'): void {
    this.counts[how === 'stop' ? 'stopped' : 'fenced']++;
    this.excuse(life, how === 'stop' ? 'stops' : 'is fenced');
    this.live.delete(node);
  }

  /** Whoever is up knows that this life is over. */
  mustBeGone(life: Life): void {
    for (const { life: by, membership } of this.live.values())
      if (membership.view.members.some((member) => lifeOf(member) === life) && by !== life)
        this.simulation.fail('the dead are noticed', `${by} counts ${life} as a member`);
  }

  /** One that runs, and whom no episode concerns, is neither put out nor stops. */
  private excuse(life: Life, what: string): void {
    const node = nodeOf(life);
    if (this.live.get(node)?.life !== life) return;
    const { now } = this.simulation.clock;
    const due = this.episodes.filter(({ at, forMs }) => at <= now && now <= at + forMs + SETTLE_MS);
    const oldest = [...(this.latest?.members ?? [])].sort((a, b) => a.incarnation - b.incarnation)[0]?.name;
    // Of two halves the one with the oldest member stays.
    const harmed = ({ harms, halves }: Episode): boolean =>
      halves === undefined ? harms.includes(node) : !halves.find((half) => half.includes(oldest ?? ''))?.includes(node);
    if (due.some(harmed)) return;
    this.simulation.fail('nobody who is well is put out', `${life} ${what}, and nothing was wrong with it`);
  }
}

/** Workers are named like the nodes that they run at. */
export function nodeOf(life: Life): string {
  return life.slice(0, life.lastIndexOf('#'));
}
