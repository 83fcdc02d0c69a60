/** @file What a worker knows of its own absence, for the words in which it is told that it was put out. Pure: it is told the time. */

/** How long a worker stood still, and when it noticed. */
interface Spell {
  readonly ms: number;
  readonly until: number;
}

/** What is over for as many leases is not why it was put out. */
const RECENT_LEASES = 3;

/** Times that are shorter than half a lease put nobody out, and are not told. */
export class Absence {
  private readonly leaseMs: number;
  private stood: Spell | undefined;
  private away: Spell | undefined;
  private awaySince: number | undefined;

  constructor(leaseMs: number) {
    this.leaseMs = leaseMs;
  }

  /** This worker did not turn for so long until now. */
  stoodStill(ms: number, now: number): void {
    if (this.isLong(ms)) this.stood = { ms, until: now };
  }

  /** Whether the store answers. */
  storeIs(up: boolean, now: number): void {
    if (!up) this.awaySince ??= now;
    else if (this.awaySince !== undefined) {
      const ms = now - this.awaySince;
      if (this.isLong(ms)) this.away = { ms, until: now };
      this.awaySince = undefined;
    }
  }

  /** `why`, with how long this worker was away as far as it knows. */
  explain(why: string, now: number): string {
    const { stood, awaySince } = this;
    const away = awaySince === undefined ? this.away : { ms: now - awaySince, until: now };
    const known = [
      this.isRecent(stood, now) ? `this worker stood still for ${seconds(stood.ms)}` : '',
      this.isRecent(away, now) ? `its store was out of reach for ${seconds(away.ms)}` : '',
    ].filter((text) => text !== '');
    return known.length === 0 ? why : `${why}: ${known.join(', and ')}`;
  }

  private isLong(ms: number): boolean {
    return ms >= this.leaseMs / 2;
  }

  private isRecent(spell: Spell | undefined, now: number): spell is Spell {
    return spell !== undefined && this.isLong(spell.ms) && now - spell.until < RECENT_LEASES * this.leaseMs;
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
