/** @file Drawn lives of peers: what may be said of each, and what has to be, from a record of what was told of it. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { DEFAULT_LIVENESS, type Liveness } from '../base/options.ts';
import { BUSY_AGE_MS, LivenessPolicy, type LivenessEffect } from './policy.ts';

const { pingMs, busyDeadMs } = DEFAULT_LIVENESS;
/** Pings as often as leases are asked for at most, as they are by default; more seldom, and more often. */
const TIMES: readonly Liveness[] = [
  DEFAULT_LIVENESS,
  { ...DEFAULT_LIVENESS, pingMs: 5_000, suspectMs: 12_000, deadMs: 25_000, busyDeadMs: 70_000 },
  { ...DEFAULT_LIVENESS, pingMs: 1_100, suspectMs: 3_000, deadMs: 9_000, reconnectGraceMs: 4_000 },
];
const INQUIRY_MS = 2_000;
const STEP_MS = 500;
const OWN_STALL_MS = 1_000;
const AGES_MS = [undefined, 0, BUSY_AGE_MS - 1, BUSY_AGE_MS, busyDeadMs - 1, busyDeadMs];

type Effect = LivenessEffect<string>;
type Event = 'heard' | 'lost' | 'up' | 'lease' | 'unknown' | 'there';

/** What happens in a spell of a life, between the looks at it. */
const SPELLS: readonly (readonly Event[])[] = [
  ['heard', 'lost', 'up', 'lease', 'unknown', 'there'],
  ['heard'],
  ['unknown'],
  ['there', 'unknown'],
  ['lease'],
  ['lost'],
];
/** Looks in a spell at most: longer than a busy peer has. */
const LONGEST_SPELL = 400;

/** What was told of one peer, and what was said of it. */
class Known {
  heardAt = 0;
  pingedAt = -Infinity;
  inquiredAt = -Infinity;
  lostAt: number | undefined;
  lease: 'unknown' | 'alive' | 'gone' = 'unknown';
  busyMs = 0;
  thereAt = -Infinity;
  stoodAt = -Infinity;
  suspect = false;
  accused = false;
  receiving = false;
  readonly inquiryMs: number;
  private readonly times: Liveness;

  constructor(times: Liveness) {
    this.times = times;
    this.inquiryMs = Math.min(INQUIRY_MS, times.pingMs);
  }

  isThere(now: number): boolean {
    return this.lease === 'unknown' && now - this.thereAt < 3 * this.inquiryMs;
  }

  get isBusy(): boolean {
    return this.lease === 'alive' && this.busyMs >= BUSY_AGE_MS;
  }

  /** What its silence comes to, if anything. */
  verdict(now: number): 'silent' | 'busy' | undefined {
    const { suspectMs, deadMs, busyDeadMs: longestMs } = this.times;
    const silence = now - this.heardAt;
    if (this.suspect && (this.isThere(now) || this.isBusy)) this.stoodAt = now;
    if (this.lostAt !== undefined || silence < deadMs) return undefined;
    if (this.isThere(now)) return silence >= longestMs ? 'busy' : undefined;
    if (!this.isBusy) return now - this.stoodAt >= suspectMs ? 'silent' : undefined;
    return (silence >= longestMs && this.busyMs >= longestMs) || silence >= 2 * longestMs ? 'busy' : undefined;
  }

  heard(): readonly string[] {
    const said = this.suspect ? ['trusted'] : [];
    if (this.suspect) this.lease = 'unknown';
    this.suspect = this.accused = false;
    return said;
  }

  accuse(evidence: string, isCertain: boolean): readonly string[] {
    if (this.accused) return [];
    const said = [...(this.suspect ? [] : ['suspect']), `accuse ${evidence}${isCertain ? '!' : ''}`];
    this.suspect = this.accused = true;
    return said;
  }

  judged(now: number): readonly string[] {
    const verdict = this.verdict(now);
    return verdict === undefined ? [] : this.accuse(verdict, false);
  }
}

function said(effect: Effect): string {
  return effect.type === 'accuse' ? `accuse ${effect.evidence}${effect.certain ? '!' : ''}` : effect.type;
}

/** A policy of one peer and its record, told the same. */
class Life {
  readonly policy: LivenessPolicy<string>;
  readonly known: Known;
  readonly seen = new Set<string>();
  now = 0;
  private lookedAt = 0;
  /** The age that its lease has in this spell, mostly. */
  private ageMs: number | undefined;
  private readonly random: Random;
  private readonly times: Liveness;
  private lived: readonly Event[] = [];
  private left = 0;

  constructor(random: Random) {
    this.random = random;
    this.times = random.pick(TIMES);
    this.policy = new LivenessPolicy<string>(this.times);
    this.known = new Known(this.times);
    this.policy.track('b', 0);
    this.tick();
  }

  step(): void {
    const { random } = this;
    if (this.left-- <= 0) {
      [this.lived, this.left] = [random.pick(SPELLS), random.int(1, LONGEST_SPELL)];
      this.ageMs = random.pick(AGES_MS);
    }
    if (random.chance(0.2)) this.happens(random.pick(this.lived));
    this.now += random.chance(0.01) ? random.int(STEP_MS, 20_000) : random.pick([STEP_MS / 4, STEP_MS]);
    this.forgive();
    this.tick();
    this.lookedAt = this.now;
  }

  private happens(event: Event): void {
    const { random, known, policy, now } = this;
    switch (event) {
      case 'heard': {
        const isWithin = random.chance(0.3);
        known.heardAt = now;
        known.receiving = isWithin;
        return this.expect(policy.heard('b', now, isWithin), known.heard());
      }
      case 'lost':
        known.lostAt ??= now;
        return policy.linkLost('b', now);
      case 'up':
        known.lostAt = undefined;
        known.heardAt = now;
        known.receiving = false;
        return this.expect(policy.linkUp('b', now), known.heard());
      case 'lease': {
        const alive = random.chance(0.99);
        const ageMs = random.chance(0.95) ? this.ageMs : random.pick(AGES_MS);
        [known.lease, known.busyMs] = [alive ? 'alive' : 'gone', ageMs ?? 0];
        return this.expect(
          policy.lease('b', now, { alive, ageMs }),
          alive ? known.judged(now) : known.accuse('lease-gone', true),
        );
      }
      case 'unknown':
        known.lease = 'unknown';
        return this.expect(policy.unknown('b', now), known.judged(now));
      case 'there':
        known.thereAt = now;
        return policy.there('b', now);
    }
  }

  /** That nothing came while this worker's own loop stood still says nothing of others. */
  private forgive(): void {
    const { known, now, times } = this;
    const gap = now - this.lookedAt - STEP_MS;
    if (gap < OWN_STALL_MS) return;
    known.heardAt = Math.min(Math.max(known.heardAt, now - times.pingMs), known.heardAt + gap);
    if (known.lostAt !== undefined) known.lostAt = Math.min(now, known.lostAt + gap);
  }

  private tick(): void {
    const { known, now } = this;
    const { pingMs: everyMs, suspectMs, reconnectGraceMs } = this.times;
    const silence = now - known.heardAt;
    const wanted: string[] = [];
    if (known.receiving) wanted.push('answer');
    known.receiving = false;
    if (known.lostAt === undefined && silence >= everyMs && now - known.pingedAt >= everyMs) {
      known.pingedAt = now;
      wanted.push('ping');
    }
    if (silence >= suspectMs && !known.suspect) {
      known.suspect = true;
      wanted.push('suspect');
    }
    const isDoubted = known.suspect || known.lostAt !== undefined;
    if (isDoubted && !known.accused && now - known.inquiredAt >= known.inquiryMs) {
      known.inquiredAt = now;
      wanted.push('inquire');
    }
    if (known.lostAt !== undefined && now - known.lostAt >= reconnectGraceMs)
      wanted.push(...known.accuse('unreachable', false));
    wanted.push(...known.judged(now));
    this.expect(this.policy.tick(now), wanted);
  }

  private expect(effects: readonly Effect[], wanted: readonly string[]): void {
    expect(effects.map(said)).toEqual(wanted);
    for (const each of wanted) this.seen.add(each);
  }
}

describe('a drawn life', () => {
  it('is judged by what was told of it, and by nothing else', () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= 100; seed++) {
      const life = new Life(new Random(seed));
      for (let step = 0; step < 1_000; step++) {
        try {
          life.step();
        } catch (error) {
          throw new Error(`seed ${seed}, step ${step}, at ${life.now} ms`, { cause: error });
        }
      }
      for (const each of life.seen) seen.add(each);
    }
    const accusations = ['lease-gone!', 'unreachable', 'silent', 'busy'].map((why) => `accuse ${why}`);
    for (const each of ['ping', 'answer', 'inquire', 'suspect', 'trusted', ...accusations])
      expect(seen, `nobody ever drew ${each}`).toContain(each);
  });
});

describe('many drawn peers of which few are needed', () => {
  it('are asked in turn, so many in a look and no more, and each of them within its time', () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed);
      const attended = random.int(2, 8);
      const count = attended * random.int(2, 6);
      const policy = new LivenessPolicy<string>(DEFAULT_LIVENESS, attended);
      const askedAt = new Map<string, number>();
      for (let i = 0; i < count; i++) {
        policy.track(`${i}`, 0);
        askedAt.set(`${i}`, 0);
      }
      const mostPerLook = Math.ceil((attended * STEP_MS) / pingMs);
      const crowd = Math.ceil(count / attended);
      for (let now = 0; now < 20 * crowd * pingMs; now += STEP_MS) {
        const asked = policy.tick(now, () => false).filter(({ type }) => type === 'ping');
        expect(asked.length, `seed ${seed}`).toBeLessThanOrEqual(mostPerLook);
        for (const { peer } of asked) {
          askedAt.set(peer, now);
          policy.heard(peer, now);
        }
        for (const at of askedAt.values()) expect(now - at, `seed ${seed}`).toBeLessThanOrEqual(2 * crowd * pingMs);
      }
    }
  });
});
