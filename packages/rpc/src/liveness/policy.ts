/** @file When a peer is pinged, doubted and accused. Pure: events and times in, effects out. */
import type { Liveness } from '../base/options.ts';

/** Why a peer is thought dead. */
export type Evidence =
  /** Its lease in the store is gone. */
  | 'lease-gone'
  /** It could not be reached again in the time allowed. */
  | 'unreachable'
  /** Its connection is up and nothing comes. */
  | 'silent'
  /** It is alive, and its main loop has been stuck for too long. */
  | 'busy';

export type LivenessEffect<P> =
  | { readonly type: 'ping'; readonly peer: P }
  /** It should hear something: its bytes arrive and are no message yet, so that nothing else answers them. */
  | { readonly type: 'answer'; readonly peer: P }
  /** Its lease should be read, and the answer given to `lease`. */
  | { readonly type: 'inquire'; readonly peer: P }
  | { readonly type: 'suspect'; readonly peer: P }
  /** It was suspect and is heard again. */
  | { readonly type: 'trusted'; readonly peer: P }
  /** `certain`: evict it now; otherwise this is one member's accusation. Once a peer, unless it is heard again. */
  | { readonly type: 'accuse'; readonly peer: P; readonly evidence: Evidence; readonly certain: boolean };

/** Between two questions about one lease, at most. */
const INQUIRY_MS = 2_000;
/** A lag of the main loop from which a peer counts as busy rather than cut off from this one. */
export const BUSY_AGE_MS = 1_000;
/** This process was itself away if its clock jumped this far past the time it asked to be woken at. */
const OWN_STALL_MS = 1_000;
/** Between two looks at all peers, at most. */
export const LOOK_MS = 500;
/**
 * Links that are pinged whatever they are needed for. Of more, those that nothing waits on rest: so many of them are asked in turn within
 * `pingMs`, and what doing nothing costs a worker does not grow with its group.
 */
const ATTENDED_LINKS = 32;

class Peer {
  heardAt: number;
  /** Bytes of a message came that is not complete, since the last tick. */
  receiving = false;
  pingedAt = -Infinity;
  /** A ping is not answered yet. */
  asked = false;
  /** Nothing waits on it, and it is not asked: its silence says nothing. */
  resting = false;
  inquiredAt = -Infinity;
  /** When the link broke; undefined while it is up. */
  lostAt: number | undefined;
  suspect = false;
  accused = false;
  lease: 'unknown' | 'alive' | 'gone' = 'unknown';
  busyMs = 0;
  /** When its process was found last; it may stand still. */
  thereAt = -Infinity;
  /** When it was last known to stand still. */
  stoodAt = -Infinity;

  constructor(now: number) {
    this.heardAt = now;
  }
}

/**
 * One worker's judgement of its peers. States of a peer: *trusted* ⇄ *suspect* → *accused*; with its link up or lost. Only the group
 * decides that a peer is dead: this class accuses.
 */
export class LivenessPolicy<P> {
  private readonly options: Liveness;
  private readonly attended: number;
  private readonly inquiryMs: number;
  private readonly peers = new Map<P, Peer>();
  private wokenAt: number | undefined;

  constructor(options: Liveness, attended: number = ATTENDED_LINKS) {
    this.options = options;
    this.attended = attended;
    this.inquiryMs = Math.min(INQUIRY_MS, options.pingMs);
  }

  /** A peer whose link is up. */
  track(peer: P, now: number): void {
    if (!this.peers.has(peer)) this.peers.set(peer, new Peer(now));
  }

  forget(peer: P): void {
    this.peers.delete(peer);
  }

  /** Any byte came from it; `within` a message that is not complete, it is told of that at the next tick. */
  heard(peer: P, now: number, within = false): LivenessEffect<P>[] {
    const at = this.peers.get(peer);
    if (at === undefined) return [];
    at.heardAt = now;
    at.receiving = within;
    at.accused = false;
    at.asked = false;
    at.resting = false;
    if (!at.suspect) return [];
    at.suspect = false;
    at.lease = 'unknown';
    return [{ type: 'trusted', peer }];
  }

  /** Its link broke. */
  linkLost(peer: P, now: number): void {
    const at = this.peers.get(peer);
    if (at !== undefined) at.lostAt ??= now;
  }

  linkUp(peer: P, now: number): LivenessEffect<P>[] {
    this.track(peer, now);
    const at = this.peers.get(peer) as Peer;
    at.lostAt = undefined;
    return this.heard(peer, now);
  }

  /** What the store says of its lease: gone, or alive with the age of its main loop's last tick. */
  lease(peer: P, now: number, state: { alive: boolean; ageMs?: number | undefined }): LivenessEffect<P>[] {
    const at = this.peers.get(peer);
    if (at === undefined) return [];
    at.lease = state.alive ? 'alive' : 'gone';
    at.busyMs = state.ageMs ?? 0;
    if (!state.alive) return this.accuse(peer, at, 'lease-gone', true);
    return this.judge(peer, at, now);
  }

  /** The store does not answer. */
  unknown(peer: P, now: number): LivenessEffect<P>[] {
    const at = this.peers.get(peer);
    if (at === undefined) return [];
    at.lease = 'unknown';
    return this.judge(peer, at, now);
  }

  /** Its process exists, or its host takes connections for it: it may stand still. */
  there(peer: P, now: number): void {
    const at = this.peers.get(peer);
    if (at !== undefined) at.thereAt = now;
  }

  /** Another doubts it: one that rests is asked now. */
  attend(peer: P, now: number): LivenessEffect<P>[] {
    const at = this.peers.get(peer);
    if (at?.resting !== true) return [];
    this.wake(at, now);
    return this.ping(peer, at, now);
  }

  /** To be called every `LOOK_MS`, or sooner; after the sockets have been read. Peers on which nothing waits may rest where there are many. */
  tick(now: number, isNeeded: (peer: P) => boolean = () => true): LivenessEffect<P>[] {
    this.forgiveOwnStall(now);
    const effects: LivenessEffect<P>[] = [];
    const crowd = Math.ceil(this.peers.size / this.attended);
    // As many as are due since the last look, however late this one is.
    const since = this.wokenAt === undefined ? LOOK_MS : now - this.wokenAt;
    let turns = Math.ceil((this.attended * since) / this.options.pingMs);
    for (const [peer, at] of this.peers) {
      if (crowd > 1 && this.mayRest(at, now) && !isNeeded(peer)) {
        if (now - at.heardAt < crowd * this.options.pingMs || turns === 0) {
          at.resting = true;
          continue;
        }
        turns--;
      }
      if (at.resting) this.wake(at, now);
      effects.push(...this.check(peer, at, now));
    }
    this.wokenAt = now;
    return effects;
  }

  private forgiveOwnStall(now: number): void {
    const before = this.wokenAt;
    if (before === undefined) return;
    const gap = now - before - LOOK_MS;
    if (gap < OWN_STALL_MS) return;
    // While this loop stood still it could hear nobody: that time does not count, and a ping is sent first. All other time does: one that
    // stands still again and again, as a program that trains does, has to notice a silent peer too.
    for (const at of this.peers.values()) {
      at.heardAt = Math.min(Math.max(at.heardAt, now - this.options.pingMs), at.heardAt + gap);
      if (at.lostAt !== undefined) at.lostAt = Math.min(now, at.lostAt + gap);
    }
  }

  private mayRest(at: Peer, now: number): boolean {
    const { asked, suspect, receiving, lostAt, heardAt } = at;
    return !asked && !suspect && !receiving && lostAt === undefined && now - heardAt >= this.options.pingMs;
  }

  /** Its silence counts from now on, as of one that is just due for a ping. */
  private wake(at: Peer, now: number): void {
    at.resting = false;
    at.heardAt = Math.max(at.heardAt, now - this.options.pingMs);
  }

  private ping(peer: P, at: Peer, now: number): LivenessEffect<P>[] {
    at.pingedAt = now;
    at.asked = true;
    return [{ type: 'ping', peer }];
  }

  private check(peer: P, at: Peer, now: number): LivenessEffect<P>[] {
    const { pingMs, suspectMs, reconnectGraceMs } = this.options;
    const silence = now - at.heardAt;
    const effects: LivenessEffect<P>[] = [];
    if (at.receiving) {
      at.receiving = false;
      effects.push({ type: 'answer', peer });
    }
    if (at.lostAt === undefined && silence >= pingMs && now - at.pingedAt >= pingMs) {
      effects.push(...this.ping(peer, at, now));
    }
    if (silence >= suspectMs && !at.suspect) {
      at.suspect = true;
      effects.push({ type: 'suspect', peer });
    }
    if ((at.suspect || at.lostAt !== undefined) && !at.accused && now - at.inquiredAt >= this.inquiryMs) {
      at.inquiredAt = now;
      effects.push({ type: 'inquire', peer });
    }
    if (at.lostAt !== undefined && now - at.lostAt >= reconnectGraceMs) {
      effects.push(...this.accuse(peer, at, 'unreachable', false));
    }
    effects.push(...this.judge(peer, at, now));
    return effects;
  }

  /** The time limits of a silent peer whose link is up. */
  private judge(peer: P, at: Peer, now: number): LivenessEffect<P>[] {
    const { deadMs, busyDeadMs, suspectMs } = this.options;
    const silence = now - at.heardAt;
    const there = at.lease === 'unknown' && now - at.thereAt < 3 * this.inquiryMs;
    const busy = at.lease === 'alive' && at.busyMs >= BUSY_AGE_MS;
    if (at.suspect && (there || busy)) at.stoodAt = now;
    if (at.lostAt !== undefined || at.resting || silence < deadMs) return [];
    if (there) return silence >= busyDeadMs ? this.accuse(peer, at, 'busy', false) : [];
    // One that has just come to itself needs a moment to say so.
    if (!busy) return now - at.stoodAt >= suspectMs ? this.accuse(peer, at, 'silent', false) : [];
    // Both clocks are its own: how long it has been stuck, and how long we have heard nothing.
    return Math.min(silence, at.busyMs) >= busyDeadMs || silence >= 2 * busyDeadMs
      ? this.accuse(peer, at, 'busy', false)
      : [];
  }

  private accuse(peer: P, at: Peer, evidence: Evidence, certain: boolean): LivenessEffect<P>[] {
    if (at.accused) return [];
    at.accused = true;
    const effects: LivenessEffect<P>[] = [];
    if (!at.suspect) {
      at.suspect = true;
      effects.push({ type: 'suspect', peer });
    }
    effects.push({ type: 'accuse', peer, evidence, certain });
    return effects;
  }
}
