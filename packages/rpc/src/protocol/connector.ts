/** @file Who dials whom and when: one link per pair, redialled with backoff, simultaneous dials settled, unreachable peers given up. */

/** What a connector asks of its shell. `C` is a connection that came in. Called synchronously, from inside an event. */
export interface ConnectorPort<C> {
  /** Stand in line to dial the peer; report `dialStarted`, authenticate and say HELLO, and report `welcomed` or `dialFailed`. */
  dial(again: boolean): void;
  /** Stop a dial in progress; nothing is reported for it. */
  abandonDial(): void;
  /** Answer this HELLO with WELCOME; report `accepted`. */
  accept(connection: C): void;
  /** Refuse this HELLO: another link of this pair has won. */
  refuse(connection: C): void;
  /** Hold the HELLO unanswered: an own dial may still win. */
  park(connection: C): void;
  /** The peer cannot be reached: what it waits for fails, and the group is told. */
  giveUp(why: 'refused' | 'unreachable'): void;
  /** A number from 0 to 1, for jitter. */
  random(): number;
}

/**
 * The states of a link as one end sees it:
 *
 * - `idle`: nothing is wanted;
 * - `dialing`: an own dial is in line or on its way, up to the WELCOME;
 * - `waiting`: the last dial failed, or links break as soon as they are up; the next dial is at `timerAt`;
 * - `up`: the link carries frames;
 * - `closed`: final.
 */
export type ConnectorState = 'idle' | 'dialing' | 'waiting' | 'up' | 'closed';

export interface ConnectorTimes {
  /** How long a lost link is redialled before the peer is given up. */
  readonly graceMs: number;
  /** The same for a peer that takes connections and has not come to answering them. */
  readonly busyGraceMs: number;
  /** The first wait after a failure; each further one is longer by the factor, up to the most. */
  readonly firstWaitMs: number;
  readonly waitFactor: number;
  readonly mostWaitMs: number;
  /** A link that breaks sooner, and through which nothing got, was of no use: after a second such link the next dial waits. */
  readonly steadyMs: number;
  /** The longest wait between links that break so soon. What is between them may well be mended while this side waits. */
  readonly mostWaitAfterBreakMs: number;
  /** Between the two refusals of a peer on this machine that prove that nobody listens any more. */
  readonly refusalGapMs: number;
}

export const CONNECTOR_TIMES: ConnectorTimes = Object.freeze({
  graceMs: 10_000,
  busyGraceMs: 60_000,
  firstWaitMs: 50,
  waitFactor: 1.6,
  mostWaitMs: 5_000,
  steadyMs: 1_000,
  mostWaitAfterBreakMs: 1_000,
  refusalGapMs: 200,
});

export class Connector<C> {
  state: ConnectorState = 'idle';
  /** When `tick` wants to be called; Infinity = never. */
  timerAt = Infinity;
  private readonly port: ConnectorPort<C>;
  private readonly times: ConnectorTimes;
  /** Of two simultaneous dials the one from the side with the lower name wins. */
  private readonly dialerWins: boolean;
  /** A refusal by a peer on this machine means that its process does not listen any more. */
  private readonly sameHost: boolean;
  private failures = 0;
  /** Links one after the other that broke before they were steady. */
  private breaks = 0;
  private upSince = -Infinity;
  private refusedAt = -Infinity;
  private since = 0;
  /** The own dial stands in line since then; undefined once it is on its way. */
  private queuedAt: number | undefined;
  private parked: C | undefined;
  private parkedDial = 0;
  private dials = 0;
  /** The peer's dials up to this one are over: a HELLO of them that arrives late means nothing. */
  private staleDial = 0;

  constructor(
    port: ConnectorPort<C>,
    own: { readonly name: string; readonly peer: string; readonly sameHost: boolean },
    times: ConnectorTimes,
  ) {
    this.port = port;
    this.times = times;
    this.dialerWins = own.name < own.peer;
    this.sameHost = own.sameHost;
  }

  /** How many dials this side has started; goes into HELLO and WELCOME. */
  get dialCount(): number {
    return this.dials;
  }

  /** Something is to be sent: a link is needed. */
  want(now: number): void {
    if (this.state === 'idle') this.startDial(now);
  }

  /** It is the own dial's turn. The time in line was not the peer's. */
  dialStarted(now: number): void {
    if (this.state !== 'dialing' || this.queuedAt === undefined) return;
    this.since += Math.max(0, now - this.queuedAt);
    this.queuedAt = undefined;
  }

  /** The own dial got its WELCOME, which said how many dials the peer had started: the link is up, and those are over. */
  welcomed(peerDials: number, now: number): void {
    if (this.state !== 'dialing') return;
    this.staleDial = Math.max(this.staleDial, peerDials);
    this.up(now);
    this.refuseParked();
  }

  /** The own dial failed. `refused`: somebody answered that nobody listens there; `busy`: it was connected, and not answered in time. */
  dialFailed(how: 'refused' | 'busy' | 'failed', now: number): void {
    if (this.state !== 'dialing') return;
    const { parked } = this;
    if (parked !== undefined) {
      // The peer reached us although we do not reach it.
      this.parked = undefined;
      this.staleDial = this.parkedDial;
      this.up(now);
      this.port.accept(parked);
      return;
    }
    this.failures++;
    if (how === 'refused' && this.sameHost) {
      if (now - this.refusedAt >= this.times.refusalGapMs && Number.isFinite(this.refusedAt))
        return this.end('refused');
      if (!Number.isFinite(this.refusedAt)) this.refusedAt = now;
      return this.wait(this.refusedAt + this.times.refusalGapMs);
    }
    this.refusedAt = -Infinity;
    const graceMs = how === 'busy' ? Math.max(this.times.busyGraceMs, this.times.graceMs) : this.times.graceMs;
    if (now - this.since >= graceMs) return this.end('unreachable');
    this.wait(Math.min(now + this.drawWait(this.failures, this.times.mostWaitMs), this.since + graceMs));
  }

  /** The own dial was refused for a reason that another one would meet too. Nothing more is dialled until something is wanted again. */
  dialRejected(): void {
    if (this.state !== 'dialing') return;
    this.state = 'idle';
    this.timerAt = Infinity;
    this.refuseParked();
  }

  /** A HELLO of this peer's dial number `dial` came in and is as it should be. */
  hello(connection: C, dial: number, now: number): void {
    if (dial <= this.staleDial) {
      this.port.refuse(connection);
      return;
    }
    switch (this.state) {
      case 'closed':
        this.port.refuse(connection);
        return;
      case 'dialing':
        // A dial in line is none yet: it must not hold up the peer, whose own dial takes a place in its line.
        if (this.dialerWins && this.queuedAt === undefined) {
          this.refuseParked();
          this.parked = connection;
          this.parkedDial = dial;
          this.port.park(connection);
          return;
        }
        this.port.abandonDial();
        break;
      case 'idle':
      case 'waiting':
      case 'up': // The peer lost the link before this side noticed.
        break;
    }
    this.staleDial = dial;
    this.up(now);
    this.port.accept(connection);
  }

  /** A parked HELLO's connection is gone. */
  parkedLost(connection: C): void {
    if (this.parked === connection) this.parked = undefined;
  }

  /**
   * The link broke. It is redialled at once, by both sides; but after ever longer waits where one after the other breaks as soon as it
   * is up and before anything has got through, as behind a proxy that refuses what is sent again on each.
   */
  linkLost(now: number, wasOfUse: boolean): void {
    if (this.state !== 'up') return;
    this.breaks = wasOfUse || now - this.upSince >= this.times.steadyMs ? 0 : this.breaks + 1;
    if (this.breaks < 2) return this.startDial(now);
    this.since = now;
    this.wait(now + this.drawWait(this.breaks - 1, this.times.mostWaitAfterBreakMs));
  }

  /** `timerAt` has come. */
  tick(now: number): void {
    if (this.state !== 'waiting' || now < this.timerAt) return;
    this.redial(now);
  }

  /** Ends it: the peer is dead or has left, or this side closes. */
  close(): void {
    if (this.state === 'dialing') this.port.abandonDial();
    this.refuseParked();
    this.state = 'closed';
    this.timerAt = Infinity;
  }

  private startDial(now: number): void {
    this.since = now;
    this.failures = 0;
    this.refusedAt = -Infinity;
    this.redial(now);
  }

  private redial(now: number): void {
    this.state = 'dialing';
    this.timerAt = Infinity;
    this.dials++;
    this.queuedAt = now;
    this.port.dial(this.failures > 0);
  }

  private wait(until: number): void {
    this.state = 'waiting';
    this.timerAt = until;
  }

  /** How long to wait after so many failures in a row, in milliseconds. */
  private drawWait(failures: number, mostMs: number): number {
    const most = Math.min(this.times.firstWaitMs * this.times.waitFactor ** (failures - 1), mostMs);
    return Math.max(1, most * this.port.random());
  }

  private up(now: number): void {
    this.state = 'up';
    this.timerAt = Infinity;
    this.failures = 0;
    this.refusedAt = -Infinity;
    this.upSince = now;
  }

  private end(why: 'refused' | 'unreachable'): void {
    this.state = 'idle';
    this.timerAt = Infinity;
    this.port.giveUp(why);
  }

  private refuseParked(): void {
    const { parked } = this;
    this.parked = undefined;
    if (parked !== undefined) this.port.refuse(parked);
  }
}
