/** @file What one worker knows of the other members by itself and from what they report, and what follows from it. Pure. */
import { livesOf, type Life, type View, type ViewMember } from './membership.ts';
import { partOf, type Hearing } from './parts.ts';

/**
 * What one worker knows of another by itself:
 *
 * - `unsure`: there is no link, or nothing has come on it for a while;
 * - `heard`: something came lately;
 * - `stuck`: nothing comes, but its process exists, or its host takes connections for it;
 * - `doubted`: nothing came for too long, or it cannot be reached;
 * - `refused`: its host says that nobody listens there any more;
 * - `gone`: it is certain that this life is over (its process is gone, its lease is, its launcher says so).
 */
export type Opinion = 'unsure' | 'heard' | 'stuck' | 'doubted' | 'refused' | 'gone';

/** What one member tells another while somebody is in doubt. */
export interface Report {
  /** Of the view that the store had last, as far as the sender knows. */
  readonly epoch: number;
  /** The store answers the sender. */
  readonly store: boolean;
  readonly hears: readonly Life[];
  readonly doubts: readonly Life[];
  /** Those of whom the sender is certain. */
  readonly proved: readonly Life[];
  /** Whom the sender counts as gone, */
  readonly gone: readonly Life[];
  /** of those, whom so many count as gone that it is decided, */
  readonly decided: readonly Life[];
  /** and of those, of whom all that remain have said that they know it. */
  readonly confirmed: readonly Life[];
  /** The receiver is to tell the sender what it knows, and for a while each change of it. */
  readonly asks: boolean;
}

export interface AgreementTimes {
  /** A lease that is not renewed is over after this. */
  readonly leaseMs: number;
  /** Silence after which what somebody has said counts no more. */
  readonly deadMs: number;
  /** How long one may be stuck. */
  readonly busyDeadMs: number;
  /** How much later than this worker others may notice the same silence. */
  readonly settleMs: number;
  /** Between two questions to one member, and between two looks at the claims in the store. */
  readonly askMs: number;
}

/** Rules that can be broken on purpose, to see that it is noticed. */
export interface AgreementRules {
  /** Only a majority, or all but the dead, decide without the store. */
  readonly quorum: boolean;
  /** Who hears a majority, or all but the dead, goes on without the store; else one silent member is reason enough to stop. */
  readonly standing: boolean;
  /** Only who is outside of the part that stays is put out; else two accusers are enough. */
  readonly parts: boolean;
  /** Who stands still is not doubted as long as its process is there. */
  readonly patience: boolean;
}

export const ALL_AGREEMENT_RULES: AgreementRules = { quorum: true, standing: true, parts: true, patience: true };

/** So many members, the oldest that are heard, find out for the others whether somebody can be reached. */
export const WITNESSES = 8;

/** One of the others. */
export interface Known {
  opinion: Opinion;
  /** It has no address: that it cannot be reached says nothing. */
  readonly mute: boolean;
  /** It takes part in agreements; an earlier version does not: nothing is sent to it, and it has no vote. */
  readonly reports: boolean;
  /** Until when it was heard, or since when it is, or when it was first thought of. */
  heardAt: number;
  /** When it was asked last, and what it was told last. */
  askedAt: number;
  told: string;
  /** It wants to be told of changes until then. */
  listensUntil: number;
  report: Report | undefined;
  reportedAt: number;
}

export class Opinions {
  readonly self: Life;
  readonly known = new Map<Life, Known>();
  /** The members as the store has them, from the oldest life to the youngest. */
  order: readonly Life[] = [];
  epoch = 0;
  /** Members that have been decided to be gone, without the store. */
  readonly decided = new Set<Life>();
  private readonly times: AgreementTimes;
  private readonly rules: AgreementRules;

  constructor(self: Life, times: AgreementTimes, rules: AgreementRules) {
    this.self = self;
    this.times = times;
    this.rules = rules;
  }

  view(view: View, now: number): void {
    this.epoch = view.epoch;
    this.order = byAge(view);
    const { lives, order } = livesOf(view);
    for (const life of this.known.keys()) if (!lives.has(life)) this.known.delete(life);
    for (const life of this.decided) if (!lives.has(life)) this.decided.delete(life);
    for (const [i, life] of order.entries())
      if (life !== this.self && !this.known.has(life))
        this.known.set(life, stranger(view.members[i] as ViewMember, now));
  }

  opinion(peer: Life, opinion: Opinion, now: number): void {
    const at = this.known.get(peer);
    // What is certain is taken back only by the one whom it is about.
    if (at === undefined || (at.opinion === 'gone' && opinion !== 'heard')) return;
    // It was heard until now, or is from now on.
    if (opinion === 'heard' || at.opinion === 'heard') at.heardAt = now;
    at.opinion = opinion;
  }

  of(peer: Life): Opinion {
    return this.known.get(peer)?.opinion ?? 'unsure';
  }

  /** The members that have not been decided to be gone, this one included. */
  left(): Life[] {
    return this.decided.size === 0 ? [...this.order] : this.order.filter((life) => !this.decided.has(life));
  }

  isLeft(life: Life): boolean {
    return (life === this.self || this.known.has(life)) && !this.decided.has(life);
  }

  /** The others of these opinions, from the oldest life on. */
  those(...opinions: readonly Opinion[]): Life[] {
    return this.left().filter((life) => life !== this.self && opinions.includes(this.of(life)));
  }

  /** Of this worker itself; one that has been stuck for too long is doubted too. */
  doubts(life: Life, now: number): boolean {
    const at = this.known.get(life);
    if (at === undefined || this.decided.has(life)) return false;
    if (at.opinion === 'stuck') return !this.rules.patience || now - at.heardAt >= this.times.busyDeadMs;
    return at.opinion === 'doubted' || at.opinion === 'refused' || at.opinion === 'gone';
  }

  doubted(now: number): Life[] {
    return this.left().filter((life) => this.doubts(life, now));
  }

  /** What a member has said, if it is heard and has said it lately. */
  said(life: Life, now: number): Report | undefined {
    const at = this.known.get(life);
    if (at?.opinion !== 'heard' || this.decided.has(life)) return undefined;
    return now - at.reportedAt < this.times.deadMs ? at.report : undefined;
  }

  /** This worker, those it hears, those whom they hear, and so on. */
  part(now: number): Set<Life> {
    const hearings = new Map<Life, Hearing>();
    const hears = this.those('heard');
    hearings.set(this.self, { by: this.self, hears: new Set(hears), doubts: new Set(this.doubted(now)) });
    for (const by of hears) {
      const said = this.said(by, now);
      if (said !== undefined) hearings.set(by, { by, hears: new Set(said.hears), doubts: new Set(said.doubts) });
    }
    const part = partOf(this.self, hearings);
    for (const life of part) if (!this.isLeft(life)) part.delete(life);
    return part;
  }

  /**
   * Of whom it is certain that they are gone. While the store is `away`, nobody knows whether one holds its lease that refuses to be
   * reached: then it counts as gone, and so does one of whom a single member is certain. With the store, that member puts it out itself;
   * others do only when a second one is certain too, since one member's word is not enough.
   */
  certain(now: number, away: boolean): Set<Life> {
    const certain = new Set<Life>();
    const said = new Set<Life>();
    for (const life of this.left()) {
      if (this.isProved(life, away)) certain.add(life);
      for (const other of this.said(life, now)?.proved ?? []) {
        if (other === this.self || !this.isLeft(other) || this.of(other) === 'heard') continue;
        if (away || said.has(other)) certain.add(other);
        said.add(other);
      }
    }
    return certain;
  }

  /** Those outside of the part whom two of it doubt, once all witnesses have found out. */
  lost(part: ReadonlySet<Life>, now: number): Life[] {
    const witnesses = this.witnesses();
    const doubters = this.doubtersOfAll(now);
    return this.left().filter((life) => {
      const by = doubters.get(life);
      if (by === undefined || by.size < 2) return false;
      if (part.has(life) && (this.rules.parts || !this.doubts(life, now))) return false;
      return witnesses.every((witness) => by.has(witness)) || this.known.get(life)?.mute === true || !this.rules.parts;
    });
  }

  /** Those who say that they doubt somebody. */
  doubters(life: Life, now: number): Set<Life> {
    const doubters = new Set(this.those('heard').filter((by) => this.said(by, now)?.doubts.includes(life)));
    if (this.doubts(life, now)) doubters.add(this.self);
    return doubters;
  }

  /** The same for each that somebody doubts: gathered once, since most members of a large group are neither heard nor doubted. */
  private doubtersOfAll(now: number): Map<Life, Set<Life>> {
    const doubters = new Map<Life, Set<Life>>();
    const add = (life: Life, by: Life): void => {
      const known = doubters.get(life);
      if (known === undefined) doubters.set(life, new Set([by]));
      else known.add(by);
    };
    for (const by of this.those('heard')) for (const life of this.said(by, now)?.doubts ?? []) add(life, by);
    for (const life of this.doubted(now)) add(life, this.self);
    return doubters;
  }

  /** Those that are heard and take part. */
  reporters(): Life[] {
    return this.those('heard').filter((life) => this.known.get(life)?.reports === true);
  }

  /** The oldest of them: they find out for the others. */
  witnesses(): Life[] {
    return this.reporters().slice(0, WITNESSES);
  }

  isWitness(): boolean {
    return this.left().indexOf(this.self) < WITNESSES;
  }

  /** The oldest member that this worker does not doubt: it collects what the others say. */
  first(now: number): Life {
    const takesPart = (life: Life): boolean => this.known.get(life)?.reports === true && !this.doubts(life, now);
    return this.left().find((life) => life === this.self || takesPart(life)) ?? this.self;
  }

  /** What this worker can say of the others. */
  own(away: boolean, now: number): Pick<Report, 'epoch' | 'store' | 'hears' | 'doubts' | 'proved'> {
    return {
      epoch: this.epoch,
      store: !away,
      hears: this.those('heard'),
      doubts: this.doubted(now),
      proved: this.left().filter((life) => this.isProved(life, away)),
    };
  }

  private isProved(life: Life, away: boolean): boolean {
    const opinion = this.of(life);
    return opinion === 'gone' || (away && opinion === 'refused');
  }
}

function stranger({ endpoints, reports }: ViewMember, now: number): Known {
  return {
    opinion: 'unsure',
    mute: endpoints.length === 0,
    reports: reports === true,
    heardAt: now,
    askedAt: -Infinity,
    told: '',
    listensUntil: -Infinity,
    report: undefined,
    reportedAt: -Infinity,
  };
}

const orders = new WeakMap<View, readonly Life[]>();

/** The lives from the oldest to the youngest; worked out once for all workers of a process. Incarnations count up over all names. */
function byAge(view: View): readonly Life[] {
  let order = orders.get(view);
  if (order === undefined) {
    const lives = livesOf(view).order;
    const aged = view.members.map(({ incarnation }, i) => ({ life: lives[i] as Life, incarnation }));
    aged.sort((a, b) => a.incarnation - b.incarnation || (a.life < b.life ? -1 : 1));
    orders.set(view, (order = aged.map(({ life }) => life)));
  }
  return order;
}
