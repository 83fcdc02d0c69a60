/** @file Who of a group is gone and whether this worker may go on: the one rule for members in doubt, with the store and without it. Pure. */
import { verdictOf, type Claim } from './parts.ts';
import { lifeOf, livesOf, type Life, type View } from './membership.ts';
import {
  ALL_AGREEMENT_RULES,
  Opinions,
  WITNESSES,
  type AgreementRules,
  type AgreementTimes,
  type Opinion,
  type Report,
} from './opinions.ts';

export type AgreementEffect =
  /** `news`: with the view as the store had it last, since the receiver knows an older one. */
  | { readonly type: 'report'; readonly to: Life; readonly report: Report; readonly news: boolean }
  /** Find out whether it can be reached, */
  | { readonly type: 'reach'; readonly peer: Life }
  /** and whether the store answers. */
  | { readonly type: 'ask-store' }
  /** Write into the store's view that they are gone; unless `certain`, only those who are lost still when it is written. */
  | { readonly type: 'evict'; readonly lives: readonly Life[]; readonly certain: boolean }
  /** Put this claim into the store, and give all that are there to `claims`; undefined = take it back. */
  | { readonly type: 'claim'; readonly claim: Claim | undefined }
  /** The members have decided, without the store. */
  | { readonly type: 'decided'; readonly lives: readonly Life[] }
  /** This worker has been put out, */
  | { readonly type: 'fenced' }
  /** or cannot know any more whether it has. */
  | { readonly type: 'stop' };

/** In groups of up to this size everybody finds out about everybody. */
const SMALL_GROUP = 64;
/** A worker that tried so many and hears none of them hears nobody. */
const SAMPLE = 32;

/**
 * One member's part in it. `settle` is to be called after anything else was, and every now and then: it says what has to be done, again
 * and again until it is; what is being done already need not be begun once more.
 *
 * With a store that answers, the store decides, and this class says whom to put out: who is certainly gone; and who is outside of the
 * largest part of members that hear one another (of equal parts, the one with the oldest member) and doubted by two. Those who doubt him
 * are of the largest part for certain if they are a majority, or half of all and one is the oldest; else they claim in the store to be
 * the group, and wait for the claims of the others.
 *
 * While the store is away from all of a part, the part decides by itself if it is a majority of the view, or all but those that are
 * certainly dead. Every member has a set of lives that it counts as gone. The set only grows, by those that are certainly gone or lost
 * to the part and by what others count as gone, and it is decided once such a quorum has said that it has exactly this set. Two quorums
 * have a member in common, and the sets of one member contain each other, so of two decisions one always contains the other.
 *
 * A worker stops when the store has been away for as long as a lease lasts and its part is no such quorum.
 */
export class Agreement {
  private readonly opinions: Opinions;
  private readonly times: AgreementTimes;
  private readonly rules: AgreementRules;
  private store: 'up' | 'silent' | 'down' = 'up';
  /** Since when it has been as it is. */
  private storeSince = -Infinity;
  /** Whom this worker counts as gone. */
  private gone = new Set<Life>();
  private confirmed = new Set<Life>();
  /** What was claimed in the store, since when, and when the claims were looked at last. */
  private claimed: string | undefined;
  private claimedAt = 0;
  private claimsAt = -Infinity;
  /** A member says that this worker is gone, and the store has not been asked about it. */
  private isExpelled = false;
  private isOver = false;
  private pending: AgreementEffect[] = [];

  constructor(self: Life, times: AgreementTimes, rules: AgreementRules = ALL_AGREEMENT_RULES) {
    this.opinions = new Opinions(self, times, rules);
    this.times = times;
    this.rules = rules;
  }

  /** Whether it was put out or has stopped. */
  get over(): boolean {
    return this.isOver;
  }

  get isStoreUp(): boolean {
    return this.store === 'up';
  }

  /** Whether somebody is in doubt, or what was decided is not in the store yet: `settle` has to be called again soon. */
  isTroubled(now: number): boolean {
    const { known, decided } = this.opinions;
    if (decided.size > 0 || (this.store !== 'up' && this.gone.size > 0)) return true;
    for (const life of known.keys()) if (this.opinions.doubts(life, now)) return true;
    return false;
  }

  /** The store's view; `unwritten` are the members of it of whom this worker knows that they are gone. */
  view(view: View, unwritten: Iterable<Life>, now: number): void {
    const { opinions } = this;
    const { lives } = livesOf(view);
    const overruled =
      opinions.decided.size > 0 &&
      view.departed.some(
        (departed) =>
          departed.how === 'dead' &&
          departed.by !== undefined &&
          opinions.decided.has(departed.by) &&
          opinions.isLeft(lifeOf(departed)),
      );
    // Who has been put out has no say in who else is.
    if (!lives.has(opinions.self)) this.end('fenced');
    // One that we have decided to be gone has put out one of us: the store's side goes on, and what we have decided since is void.
    if (overruled) this.end('fenced');
    opinions.view(view, now);
    for (const life of unwritten) opinions.decided.add(life);
    for (const set of [this.gone, this.confirmed]) for (const life of set) if (!lives.has(life)) set.delete(life);
    for (const life of opinions.decided) this.gone.add(life);
  }

  opinion(peer: Life, opinion: Opinion, now: number): void {
    this.opinions.opinion(peer, opinion, now);
  }

  opinionOf(peer: Life): Opinion {
    return this.opinions.of(peer);
  }

  /** The store has answered; or it owes an answer ('silent'); or its host says that it does not run ('down'). */
  storeIs(state: 'up' | 'silent' | 'down', now: number): void {
    if ((state === 'up') !== (this.store === 'up')) this.storeSince = now;
    this.store = state;
    if (state === 'up') this.isExpelled = false;
    else if (this.isExpelled) this.end('fenced');
  }

  report(from: Life, report: Report, now: number): void {
    const { opinions } = this;
    const at = opinions.known.get(from);
    if (at === undefined || this.isOver || opinions.decided.has(from)) return;
    if (report.decided.includes(opinions.self)) {
      this.expelled();
      return;
    }
    at.report = report;
    at.reportedAt = now;
    if (report.asks) {
      at.listensUntil = now + this.times.deadMs;
      at.told = '';
    }
    // While the store answers, it decides, and one member's word puts nobody out: what was decided away from it is written by those who did.
    if (this.store !== 'up') this.adopt(report.decided, now);
    else if (report.decided.some((life) => opinions.isLeft(life))) this.pending.push({ type: 'ask-store' });
    for (const life of report.confirmed) if (opinions.decided.has(life)) this.confirmed.add(life);
    // With the store there is nothing to agree on: it decides. But it may be away from here too.
    if (this.store !== 'up') this.count(report.gone);
    else if (!report.store) this.pending.push({ type: 'ask-store' });
    if (!opinions.isWitness()) return;
    for (const life of [...report.doubts, ...report.proved]) if (opinions.of(life) === 'unsure') this.reach(life);
  }

  /**
   * A member counts this worker as gone. If the store answers, that is what the store says: one member's word puts nobody out, and what was
   * decided on the other side of a split is void. Without the store it has been decided by those that could.
   */
  expelled(): void {
    if (this.store !== 'up') this.end('fenced');
    else {
      this.isExpelled = true;
      this.pending.push({ type: 'ask-store' });
    }
  }

  /** All claims in the store. */
  claims(claims: readonly Claim[], now: number): void {
    this.evict(this.claimedLosers(claims, now), false);
  }

  /** Those of whom the claims say that they are put out, if this worker is of the part that stays. */
  claimedLosers(claims: readonly Claim[], now: number): Life[] {
    // The others notice a cut as late as this one does, or a little later.
    if (this.claimed === undefined || now - this.claimedAt < this.times.settleMs) return [];
    const late = now - this.claimedAt >= this.times.leaseMs;
    const verdict = verdictOf(this.opinions.left(), claims, late);
    if (verdict === undefined || !verdict.winners.has(this.opinions.self)) return [];
    return [...verdict.losers].filter((life) => this.opinions.of(life) !== 'heard');
  }

  /** Whether somebody who was lost to this worker's part is so still. */
  isLost(life: Life, now: number): boolean {
    return this.isSure(life, now) && this.opinions.lost(this.opinions.part(now), now).includes(life);
  }

  /** Whether it is certain, to this worker or to one that it hears, that somebody is gone. */
  isCertain(life: Life, now: number): boolean {
    return this.opinions.decided.has(life) || this.opinions.certain(now, this.store !== 'up').has(life);
  }

  /** One that said goodbye: nobody has to agree on that. */
  left(life: Life): void {
    if (!this.opinions.known.has(life)) return;
    this.gone.add(life);
    this.opinions.decided.add(life);
  }

  /** What has to be done now. */
  settle(now: number): AgreementEffect[] {
    if (!this.isOver) this.look(now);
    return this.pending.splice(0);
  }

  /** All that its future depends on, for explorations. */
  snapshot(now: number): unknown {
    const { known, decided, epoch } = this.opinions;
    const long = now - this.storeSince >= this.times.leaseMs;
    return {
      known: [...known]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([life, at]) => [life, at.opinion, at.report, at.listensUntil > now, at.told, at.askedAt >= 0]),
      rest: [epoch, this.store, this.isExpelled, this.store !== 'up' && long, this.isOver],
      claim: [this.claimed, this.claimed !== undefined && now - this.claimedAt >= this.times.settleMs],
      sets: [this.gone, decided, this.confirmed].map((set) => [...set].sort()),
    };
  }

  private look(now: number): void {
    const { opinions } = this;
    // What was counted and not decided is void once nobody takes an old report of it for a vote any more.
    if (this.store === 'up' && now - this.storeSince >= this.times.deadMs) this.gone = new Set(opinions.decided);
    if (!this.isTroubled(now)) {
      this.claim(undefined, now);
      this.tell(now, []);
      return;
    }
    this.pending.push({ type: 'ask-store' });
    const part = opinions.part(now);
    const certain = opinions.certain(now, this.store !== 'up');
    const lost = opinions.lost(part, now).filter((life) => !certain.has(life));
    if (this.store === 'up') this.putOut(part, certain, lost, now);
    else if (!this.isStoreNear(now)) {
      this.propose([...certain, ...lost], now);
      this.decide(now);
      this.stand(part, now);
    }
    this.confirm();
    this.findOut(part, now);
    this.tell(now, this.asked(now));
  }

  /** With the store. */
  private putOut(part: ReadonlySet<Life>, certain: ReadonlySet<Life>, lost: readonly Life[], now: number): void {
    const { opinions } = this;
    this.evict([...certain, ...opinions.decided], true);
    this.evict(
      lost.filter((life) => this.isSure(life, now)),
      false,
    );
    // Nobody has to claim anything against who is certainly gone.
    const doubts = opinions.doubted(now).filter((life) => !part.has(life) && !certain.has(life));
    const claim = { by: opinions.self, part: [...part].sort(), doubts: doubts.sort() };
    this.claim(doubts.length === 0 ? undefined : claim, now);
  }

  /** Without the store: counts them as gone, if this part can decide at all. */
  private propose(lives: readonly Life[], now: number): void {
    const { opinions } = this;
    const news = lives.filter((life) => !this.gone.has(life));
    if (news.length === 0) return;
    const wanted = new Set([...this.gone, ...news]);
    const able = opinions.those('heard').filter((life) => {
      const said = opinions.said(life, now);
      return said?.epoch === opinions.epoch && !said.hears.some((other) => wanted.has(other));
    });
    if (this.isQuorum(new Set([opinions.self, ...able]), now)) this.count(news);
  }

  private decide(now: number): void {
    const { opinions } = this;
    if (this.gone.size === opinions.decided.size) return;
    const agreed = opinions.those('heard').filter((life) => {
      const said = opinions.said(life, now);
      return said?.epoch === opinions.epoch && sameSet(said.gone, this.gone);
    });
    if (this.isQuorum(new Set([opinions.self, ...agreed]), now)) this.adopt([...this.gone], now);
  }

  /** It is decided; whoever is heard is told before anything else follows from it. */
  private adopt(lives: readonly Life[], now: number): void {
    const { opinions } = this;
    const news = lives.filter((life) => opinions.known.has(life) && !opinions.decided.has(life));
    if (news.length === 0) return;
    for (const life of news) {
      this.gone.add(life);
      opinions.decided.add(life);
    }
    const words = this.words(now);
    for (const to of opinions.reporters()) this.send(to, words, false);
    this.pending.push({ type: 'decided', lives: news });
  }

  private count(lives: readonly Life[]): void {
    const { opinions } = this;
    for (const life of lives) if (opinions.known.has(life) && opinions.of(life) !== 'heard') this.gone.add(life);
  }

  /** Once all that remain know a decision, a majority is one of them alone. */
  private confirm(): void {
    const { known, decided, self } = this.opinions;
    if (decided.size === this.confirmed.size) return;
    const knows = (life: Life): boolean => {
      const said = known.get(life)?.report?.decided ?? [];
      return life === self || [...decided].every((other) => said.includes(other));
    };
    if (this.opinions.left().every(knows)) this.confirmed = new Set(decided);
  }

  /** Stops when its lease must be over and it is of no part that may go on. */
  private stand(part: ReadonlySet<Life>, now: number): void {
    const { opinions } = this;
    if (now - this.storeSince < this.times.leaseMs) return;
    if (!this.rules.standing) {
      this.end('stop');
      return;
    }
    const stuck = opinions.those('stuck').filter((life) => !opinions.doubts(life, now));
    const reached = new Set([...part, ...stuck]);
    if (this.isQuorum(reached, now)) return;
    const unsure = opinions.those('unsure').some((life) => opinions.known.get(life)?.mute !== true);
    if (unsure && (reached.size > 1 || opinions.doubted(now).length < SAMPLE)) return;
    this.end('stop');
  }

  /** A majority of those that count, or all but the dead. */
  private isQuorum(lives: ReadonlySet<Life>, now: number): boolean {
    const { opinions } = this;
    if (!this.rules.quorum) return true;
    const count = opinions.order.filter((life) => !this.confirmed.has(life));
    const votes = count.filter((life) => lives.has(life) && !opinions.decided.has(life)).length;
    if (2 * votes > count.length) return true;
    // A store that is known not to run is on nobody's side: half of the group may go on then, the one with the oldest member.
    if (this.store === 'down' && 2 * votes === count.length && votes > 1 && lives.has(count[0] ?? '')) return true;
    const certain = opinions.certain(now, this.store !== 'up');
    return opinions.order.every((life) => lives.has(life) || certain.has(life) || opinions.decided.has(life));
  }

  /** Those who doubt somebody are so many that no part without them can be larger, or as large and older. */
  private isSure(life: Life, now: number): boolean {
    const { order } = this.opinions;
    const doubters = this.opinions.doubters(life, now);
    if (!this.rules.parts || 2 * doubters.size > order.length) return true;
    return 2 * doubters.size === order.length && doubters.has(order[0] ?? '');
  }

  /** Those whom it is worth to know more of are reached. */
  private findOut(part: ReadonlySet<Life>, now: number): void {
    const { opinions } = this;
    const { length } = opinions.order;
    const collects = this.store !== 'up' && (opinions.first(now) === opinions.self || 2 * part.size <= length);
    const unsure = opinions.those('unsure');
    for (const life of length <= SMALL_GROUP || collects ? unsure : unsure.slice(0, WITNESSES)) this.reach(life);
    // What was cut may have been mended.
    for (const life of opinions.doubted(now)) if (opinions.of(life) !== 'gone') this.reach(life);
  }

  /** Who is asked in trouble: those who find out for the others, and the one that collects; everybody, if this is that one. */
  private asked(now: number): Life[] {
    const { opinions } = this;
    const first = opinions.first(now);
    if (first === opinions.self && this.store !== 'up') return opinions.reporters();
    return [...opinions.witnesses(), first];
  }

  /** Asks, now and then, and tells those that have asked of what has changed. An answer asks nothing: else two would answer each other for ever. */
  private tell(now: number, asked: readonly Life[]): void {
    const asks = new Set(asked);
    // Made once somebody wants them: they name everybody.
    let words: ReturnType<Agreement['words']> | undefined;
    for (const life of this.opinions.reporters()) {
      const at = this.opinions.known.get(life);
      if (at === undefined || (!asks.has(life) && at.listensUntil <= now)) continue;
      words ??= this.words(now);
      const due = asks.has(life) && now - at.askedAt >= this.times.askMs;
      if (!due && at.told === words.text) continue;
      if (due) at.askedAt = now;
      this.send(life, words, due);
    }
  }

  private words(now: number): { readonly report: Omit<Report, 'asks'>; readonly text: string } {
    const away = this.store !== 'up';
    const report = {
      ...this.opinions.own(away, now),
      // While the store answers, what this worker counted before is nobody's vote.
      gone: [...(away ? this.gone : this.opinions.decided)].sort(),
      decided: [...this.opinions.decided].sort(),
      confirmed: [...this.confirmed].sort(),
    };
    return { report, text: JSON.stringify(report) };
  }

  private send(to: Life, { report, text }: ReturnType<Agreement['words']>, asks: boolean): void {
    const at = this.opinions.known.get(to);
    if (at === undefined) return;
    at.told = text;
    const news = at.report !== undefined && at.report.epoch < report.epoch;
    this.pending.push({ type: 'report', to, report: { ...report, asks }, news });
  }

  private claim(claim: Claim | undefined, now: number): void {
    const text = claim === undefined ? undefined : JSON.stringify(claim);
    if (this.claimed !== text) this.claimedAt = now;
    const due = text !== undefined && now - this.claimsAt >= this.times.askMs;
    if (text === this.claimed && !due) return;
    this.claimed = text;
    this.claimsAt = now;
    this.pending.push({ type: 'claim', claim });
  }

  private evict(lives: readonly Life[], certain: boolean): void {
    if (lives.length > 0) this.pending.push({ type: 'evict', lives, certain });
  }

  private reach(peer: Life): void {
    this.pending.push({ type: 'reach', peer });
  }

  private end(how: 'fenced' | 'stop'): void {
    if (this.isOver) return;
    this.isOver = true;
    this.pending = [{ type: how }];
  }

  /** Somebody who is heard reaches the store: it is that one's to decide. */
  private isStoreNear(now: number): boolean {
    return this.opinions.those('heard').some((life) => this.opinions.said(life, now)?.store === true);
  }
}

function sameSet(list: readonly Life[], set: ReadonlySet<Life>): boolean {
  return list.length === set.size && list.every((life) => set.has(life));
}
