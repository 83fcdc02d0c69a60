/** @file What must hold of a simulated group, known from outside. */
import type { Simulation } from '@backwire/testing';
import type { View } from '../../src/protocol/membership.ts';
import { lifeOf, type Life } from './messages.ts';

/** Counts of what happened, so that a run that never got anywhere is seen. */
export interface MembershipCounts {
  joins: number;
  /** Changes that took several in, or out, at once. */
  batches: number;
  leaves: number;
  deaths: number;
  fenced: number;
  refused: number;
  released: number;
  broken: number;
  late: number;
}

export class MembershipOracle {
  readonly counts: MembershipCounts = {
    joins: 0,
    batches: 0,
    leaves: 0,
    deaths: 0,
    fenced: 0,
    refused: 0,
    released: 0,
    broken: 0,
    late: 0,
  };
  /** The epoch at which each view was agreed on; nothing else keeps the old ones. */
  private readonly agreed = new WeakMap<View, number>();
  private latest = 0;
  private readonly lastIncarnation = new Map<string, number>();
  private readonly ever = new Set<Life>();
  /** Arrivals at a barrier that were made and counted in no release yet. */
  private readonly made = new Set<string>();
  /** Who has to come to the open rounds of a key at a leader, as the view was when the first came to each. */
  private readonly rounds = new Map<string, ReadonlySet<string>[]>();
  private readonly simulation: Simulation;

  constructor(simulation: Simulation) {
    this.simulation = simulation;
  }

  /** The store's view changes; `mayDie` says whether a life has lost its lease. */
  changed(before: View, next: View, mayDie: (life: Life) => boolean): void {
    const fail = (why: string): never => this.simulation.fail('views are totally ordered', why);
    if (next.epoch !== before.epoch + 1 || next.epoch !== this.latest + 1)
      fail(`epoch ${next.epoch} after ${before.epoch}`);
    this.latest = next.epoch;
    this.agreed.set(next, next.epoch);
    const names = new Set(next.members.map(({ name }) => name));
    const ids = new Set(next.members.map(({ id }) => id));
    if (names.size !== next.members.length || ids.size !== next.members.length)
      this.simulation.fail('one life of a name', `two members share a name or an id at epoch ${next.epoch}`);
    const was = new Set(before.members.map(lifeOf));
    const is = new Set(next.members.map(lifeOf));
    for (const member of next.members) {
      const life = lifeOf(member);
      if (was.has(life)) continue;
      if (this.ever.has(life) || (this.lastIncarnation.get(member.name) ?? -1) >= member.incarnation)
        this.simulation.fail('one life of a name', `${life} joins after a later life, or again`);
      this.ever.add(life);
      this.lastIncarnation.set(member.name, member.incarnation);
      this.counts.joins++;
    }
    if ([...is].filter((life) => !was.has(life)).length + [...was].filter((life) => !is.has(life)).length > 1)
      this.counts.batches++;
    const left = new Set(next.departed.filter(({ how }) => how === 'left').map(lifeOf));
    for (const life of was) {
      if (is.has(life)) continue;
      if (left.has(life)) this.counts.leaves++;
      else if (mayDie(life)) this.counts.deaths++;
      else this.simulation.fail('one life of a name', `${life} lives and is put out at epoch ${next.epoch}`);
    }
  }

  /** A worker takes a view; `before` is the one it had. */
  installed(life: Life, before: View, next: View): void {
    if (next.epoch <= before.epoch || this.agreed.get(next) !== next.epoch)
      this.simulation.fail('views are totally ordered', `${life} goes from epoch ${before.epoch} to ${next.epoch}`);
  }

  /** A member has come to a barrier. */
  calls(life: Life, call: number): void {
    this.made.add(`${life}/${call}`);
  }

  /** The first has arrived at a round. */
  opened(leader: Life, key: string, expected: Iterable<string>): void {
    this.roundsOf(leader, key).push(new Set(expected));
  }

  /** One that a round waits for is gone. */
  broken(leader: Life, key: string, gone: string): void {
    const open = this.roundsOf(leader, key).filter((expected) => !expected.has(gone));
    this.rounds.set(`${leader} ${key}`, open);
    this.counts.broken++;
  }

  /** A leader lets the members of a round go on. */
  released(leader: Life, key: string, arrivals: ReadonlyMap<string, { life: Life; call: number }>): void {
    const fail = (why: string): never => this.simulation.fail('barriers never release early', `${leader}: ${why}`);
    const open = this.roundsOf(leader, key);
    const missing = (expected: ReadonlySet<string>): string[] => [...expected].filter((name) => !arrivals.has(name));
    const at = open.findIndex((expected) => missing(expected).length === 0);
    if (at < 0) fail(`'${key}' goes on without ${open.map((expected) => missing(expected).join()).join(' or ')}`);
    open.splice(at, 1);
    for (const { life, call } of arrivals.values())
      if (!this.made.delete(`${life}/${call}`)) fail(`'${key}' counts ${life}, which has not come, or twice`);
    this.counts.released++;
  }

  private roundsOf(leader: Life, key: string): ReadonlySet<string>[] {
    const id = `${leader} ${key}`;
    const open = this.rounds.get(id) ?? [];
    this.rounds.set(id, open);
    return open;
  }
}
