/** @file A worker that has come to an open group makes itself known to those that are there, so that each of them can call it. */
import { unref } from '../base/platform.ts';
import type { Peer } from '../session/peer.ts';

/** How long those are waited for that do not answer: they hear of the worker from the store. */
const GREETING_MS = 1_000;
/** In larger groups a link to each member, for each that comes, would cost more than it gives: they hear of it from the store. */
const GREETED_MEMBERS = 64;

/** Over when each of the peers has answered, or is given up. Who answers has this worker in its view. */
export class Greeting {
  readonly over: Promise<void>;
  private readonly silent: Set<Peer>;
  private readonly timer: NodeJS.Timeout;
  private end!: () => void;

  /** @param members how many there are; `peers` is not asked for what will not be greeted. */
  constructor(members: number, peers: () => readonly Peer[]) {
    this.silent = new Set(members > GREETED_MEMBERS ? [] : peers().filter(({ up }) => !up));
    this.over = new Promise((resolve) => (this.end = resolve));
    this.timer = unref(setTimeout(() => this.close(), GREETING_MS));
    // Who has no address dials this worker when the view names it.
    for (const peer of this.silent) if (peer.member.endpoints.length > 0) peer.want();
    this.check();
  }

  /** A peer has answered, or nobody waits for it any more. */
  settled(peer: Peer): void {
    if (this.silent.delete(peer)) this.check();
  }

  close(): void {
    clearTimeout(this.timer);
    this.end();
  }

  private check(): void {
    if (this.silent.size === 0) this.close();
  }
}
