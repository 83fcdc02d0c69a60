/** @file A worker that stood still for long may have been put out: it starts no call that came meanwhile before it knows that it was not. */
import type { Environment } from '../base/environment.ts';
import { RpcError } from '../base/errors.ts';
import type { InboundCall } from './inbound-call.ts';
import type { Peer } from '../session/peer.ts';
import { unref, sleeplessMs } from '../base/platform.ts';

export interface StallGuardOptions {
  readonly environment: Environment;
  /** Answers a call that is not run. */
  refuse(call: InboundCall, error: RpcError): void;
  peers(): Iterable<Peer>;
  /** Reads the view from the store; whoever is not in it any more is fenced by that. */
  refresh(): Promise<unknown>;
  /** The main loop did not turn for so long until now. */
  onLate(ms: number, now: number): void;
}

/** A call that may have to wait. */
interface Held {
  readonly call: InboundCall;
  readonly start: () => void;
}

/** The store has this long to say whether this worker is a member still; then each peer answers for its own calls. */
const STORE_MS = 2_000;

/** States: *turning* ⇄ *in doubt* (calls of the peers that there were wait). */
export class StallGuard {
  private readonly options: StallGuardOptions;
  private readonly limitMs: number;
  /** When the main loop turned last. */
  private turnedAt: number;
  /** The same by the clock on the wall, which goes on while a machine sleeps, and which people set; */
  private turnedOn = Date.now();
  /** and by one that goes on and is not set. */
  private turnedUp = sleeplessMs();
  private readonly waiting = new Map<Peer, Held[]>();
  /** Names the pings of this doubt; peers may answer them once the store has not. */
  private ping = 0;
  private asksPeers = false;
  /** Who has answered already. */
  private readonly answered = new Set<Peer>();

  constructor(options: StallGuardOptions) {
    this.options = options;
    const environment = options.environment;
    // Nobody is put out in less: a lease lasts longer than it takes to renew it twice.
    this.limitMs = Math.min(environment.liveness.leaseMs, environment.liveness.deadMs) / 2;
    this.turnedAt = environment.now();
  }

  /** Whether any call may have to wait. */
  get inDoubt(): boolean {
    return this.waiting.size > 0;
  }

  /** The main loop turns. To be called often, and whenever a call arrives. */
  turn(now: number): void {
    const late = this.lateMs(now);
    this.turnedAt = now;
    this.turnedOn = Date.now();
    this.turnedUp = sleeplessMs();
    this.options.onLate(late, now);
    if (late >= this.limitMs) this.woke(now);
  }

  /** Whether a call arrives so late that this worker may have stood still. */
  isLate(now: number): boolean {
    return this.lateMs(now) >= this.limitMs;
  }

  private lateMs(now: number): number {
    const awakeMs = now - this.turnedAt;
    // The wall's clock is asked for each call, so it is asked first: the other one takes as long as a call does.
    if (awakeMs >= this.limitMs || Date.now() - this.turnedOn < this.limitMs) return awakeMs;
    return Math.max(awakeMs, sleeplessMs() - this.turnedUp);
  }

  /** Whether a call has to wait; it is started, or refused, later. */
  holds(call: InboundCall, start: () => void): boolean {
    const held = this.waiting.get(call.peer);
    if (held === undefined) return false;
    held.push({ call, start });
    return true;
  }

  /** A peer has answered a ping. */
  pong(peer: Peer, ping: number): void {
    if (ping === this.ping) this.met(peer);
  }

  /** A peer takes this worker for a member: it goes on with its session. */
  met(peer: Peer): void {
    if (!this.waiting.has(peer)) return;
    this.answered.add(peer);
    if (this.asksPeers) this.release(peer);
  }

  /** The group has put this worker out. */
  fenced(why: string): void {
    const error = new RpcError('fenced', why);
    for (const held of this.waiting.values()) for (const { call } of held) this.options.refuse(call, error);
    this.waiting.clear();
  }

  private woke(now: number): void {
    const environment = this.options.environment;
    environment.logger.info({}, 'this worker stood still; it looks whether it is a member still');
    const ping = (this.ping = Math.floor(now));
    this.asksPeers = false;
    this.answered.clear();
    for (const peer of this.options.peers()) {
      if (!this.waiting.has(peer)) this.waiting.set(peer, []);
      if (peer.up) peer.ping(now);
    }
    const late = unref(setTimeout(() => this.askPeers(ping), STORE_MS));
    this.options.refresh().then(
      () => {
        clearTimeout(late);
        // Whoever was put out is fenced by now, and nothing waits.
        if (this.ping === ping) for (const peer of [...this.waiting.keys()]) this.release(peer);
      },
      () => {
        clearTimeout(late);
        this.askPeers(ping);
      },
    );
  }

  /** A peer that answers on its old session has not put this worker out. */
  private askPeers(ping: number): void {
    if (this.ping !== ping) return;
    this.asksPeers = true;
    for (const peer of this.answered) this.release(peer);
  }

  /** Its calls were cancelled with its session. */
  forget(peer: Peer): void {
    this.waiting.delete(peer);
  }

  private release(peer: Peer): void {
    const held = this.waiting.get(peer);
    this.waiting.delete(peer);
    for (const { start } of held ?? []) start();
  }
}
