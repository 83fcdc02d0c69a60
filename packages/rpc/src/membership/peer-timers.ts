/** @file What peers are owed in time: acknowledgements, turns of those that want to dial, memory that rests. */
import { runAtRoot } from '@backwire/tensor/internal';
import { bufferPool } from '@backwire/wire/internal';
import { ACK_MS } from '../base/limits.ts';
import { unref } from '../base/platform.ts';
import type { Peer } from '../session/peer.ts';

/** Receive memory that was not used for so long goes back to the system. */
const POOL_SWEEP_MS = 30_000;
/** Memory of a session on which nothing was sent for so long goes back to its pool. */
const REST_MS = 1_000;

export interface PeerTimersOptions {
  /** A monotonic time in milliseconds. */
  now(): number;
  /** All peers. */
  peers(): Iterable<Peer>;
}

export class PeerTimers {
  private readonly options: PeerTimersOptions;
  private readonly wanting = new Set<Peer>();
  private readonly acks = new Set<Peer>();
  private wakeTimer: NodeJS.Timeout | undefined;
  private wakeAt = Infinity;
  private ackTimer: NodeJS.Timeout | undefined;
  private sweepTimer: NodeJS.Timeout | undefined;
  private restTimer: NodeJS.Timeout | undefined;

  constructor(options: PeerTimersOptions) {
    this.options = options;
  }

  /** Memory is looked after from now on. */
  start(): void {
    this.sweepTimer = runAtRoot(() => setInterval(() => bufferPool.sweep(), POOL_SWEEP_MS));
    unref(this.sweepTimer);
    this.restTimer = runAtRoot(() =>
      setInterval(() => {
        for (const peer of this.options.peers()) peer.sender.rest();
      }, REST_MS),
    );
    unref(this.restTimer);
  }

  ackDue(peer: Peer): void {
    this.acks.add(peer);
    this.ackTimer ??= unref(runAtRoot(() => setTimeout(() => this.sendAcks(), ACK_MS)));
  }

  timerChanged(peer: Peer): void {
    const { timerAt } = peer.connector;
    if (timerAt === Infinity) {
      this.wanting.delete(peer);
      return;
    }
    this.wanting.add(peer);
    if (timerAt < this.wakeAt) this.armWake(timerAt);
  }

  /** It is owed nothing any more. */
  forget(peer: Peer): void {
    this.wanting.delete(peer);
    this.acks.delete(peer);
  }

  close(): void {
    clearTimeout(this.wakeTimer);
    clearTimeout(this.ackTimer);
    clearInterval(this.sweepTimer);
    clearInterval(this.restTimer);
  }

  private sendAcks(): void {
    this.ackTimer = undefined;
    for (const peer of this.acks) if (peer.sender.session.ackAt() !== Infinity) peer.sender.sendAck();
    this.acks.clear();
  }

  private armWake(at: number): void {
    clearTimeout(this.wakeTimer);
    this.wakeAt = at;
    this.wakeTimer = runAtRoot(() => setTimeout(() => this.wake(), Math.max(1, Math.ceil(at - this.options.now()))));
  }

  private wake(): void {
    this.wakeAt = Infinity;
    const now = this.options.now();
    for (const peer of [...this.wanting]) if (peer.connector.timerAt <= now) peer.tick(now);
    let next = Infinity;
    for (const peer of this.wanting) next = Math.min(next, peer.connector.timerAt);
    if (next !== Infinity && next < this.wakeAt) this.armWake(next);
  }
}
