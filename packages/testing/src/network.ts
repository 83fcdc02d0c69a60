/** @file A simulated network: datagrams and connections over directed links with delay, loss, partitions, resets and damage. */
import type { VirtualClock } from './clock.ts';
import { Connection, type ConnectionHandler, type End, type Wire } from './connection.ts';
import { calm, type LinkRates } from './faults.ts';
import type { Random } from './random.ts';

/** Receives the datagrams addressed to a node. */
export type DatagramHandler = (from: string, message: unknown) => void;
/** One direction between two nodes. */
export class Link {
  /** Undefined follows the network's rates. */
  own: Partial<LinkRates> | undefined;
  readonly random: Random;
  cloggedUntil = 0;
  /** When the last byte that was sent has left. */
  private sentUntil = 0;
  readonly #network: { readonly rates: LinkRates; readonly clock: VirtualClock };

  constructor(network: { readonly rates: LinkRates; readonly clock: VirtualClock }, random: Random) {
    this.#network = network;
    this.random = random;
  }

  get rates(): LinkRates {
    return this.own === undefined ? this.#network.rates : { ...this.#network.rates, ...this.own };
  }

  /** When a message of so many bytes that is sent now arrives; may clog the link. */
  arrival(bytes = 0): number {
    const { latencyMs, jitterMs, bytesPerMs, clog, clogMs } = this.rates;
    const now = this.#network.clock.now;
    if (this.random.chance(clog))
      this.cloggedUntil = Math.max(this.cloggedUntil, now + this.random.exponential(clogMs));
    this.sentUntil = Math.max(this.sentUntil, now) + (bytesPerMs === 0 ? 0 : bytes / bytesPerMs);
    return Math.max(this.sentUntil + latencyMs + this.random.exponential(jitterMs), this.cloggedUntil);
  }
}

/**
 * The network of a simulation. Names are nodes; a link is a directed pair of names with a random stream of its own.
 *
 * Datagrams may be lost, doubled and reordered. Connections are FIFO as TCP is: a partition holds what is in flight until it
 * heals, a reset loses it, and byte-level damage (split, merge, flip, truncate) applies to `Uint8Array` messages only.
 */
export class SimNetwork implements Wire {
  readonly clock: VirtualClock;
  /** Rates of every link without rates of its own; replaced as a whole when faults stop. */
  rates: LinkRates = calm;
  readonly #random: Random;
  readonly #links = new Map<string, Map<string, Link>>();
  readonly #blocks = new Map<string, number>();
  readonly #datagrams = new Map<string, DatagramHandler>();
  readonly #listeners = new Map<string, ConnectionHandler>();
  readonly #inboxes = new Map<string, (() => void)[]>();
  readonly #connections = new Set<Connection>();

  constructor(clock: VirtualClock, random: Random) {
    this.clock = clock;
    this.#random = random;
  }

  /** Brings a node up: its handlers replace those of an earlier incarnation. */
  attach(name: string, datagrams?: DatagramHandler, connections?: ConnectionHandler): void {
    if (datagrams !== undefined) this.#datagrams.set(name, datagrams);
    if (connections !== undefined) this.#listeners.set(name, connections);
  }

  /** Takes a node down: what it sent may still arrive, what is sent to it is lost, its connections are reset. */
  detach(name: string): void {
    this.#datagrams.delete(name);
    this.#listeners.delete(name);
    this.#inboxes.delete(name);
    for (const connection of [...this.#connections]) {
      if (connection.touches(name)) connection.crash(name);
    }
  }

  /** Holds everything that arrives at a node until `resume`. */
  pause(name: string): void {
    if (!this.#inboxes.has(name)) this.#inboxes.set(name, []);
  }

  /** Delivers what was held, in order, at once: anything that arrives later stays behind it. */
  resume(name: string): void {
    const inbox = this.#inboxes.get(name);
    while (inbox !== undefined && inbox.length > 0 && this.#inboxes.get(name) === inbox) inbox.shift()?.();
    if (this.#inboxes.get(name) === inbox) this.#inboxes.delete(name);
  }

  /** Sends a message that may be lost, doubled or overtaken; it must not be changed afterwards. */
  send(from: string, to: string, message: unknown): void {
    const link = this.link(from, to);
    const { drop, duplicate, reorder, jitterMs, latencyMs } = link.rates;
    const copies = link.random.chance(duplicate) ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      const lost = link.random.chance(drop);
      let time = link.arrival();
      if (link.random.chance(reorder)) time += link.random.exponential(10 * (jitterMs + latencyMs));
      if (lost || this.blocked(from, to)) continue;
      this.clock.at(time, pair(from, to), () => {
        if (!this.blocked(from, to)) this.arrive(to, () => this.#datagrams.get(to)?.(from, message));
      });
    }
  }

  /** Dials; the returned end reports `open`, or `close` with reason `refused`. */
  connect(from: string, to: string): End {
    const connection = new Connection(this, from, to, () => this.#connections.delete(connection));
    this.#connections.add(connection);
    connection.dial();
    return connection.dialer;
  }

  /** Resets every connection between two nodes, whoever dialled. */
  reset(a: string, b: string): void {
    for (const connection of [...this.#connections]) {
      if (connection.touches(a) && connection.touches(b)) connection.reset();
    }
  }

  /** Stops everything from `from` to `to`; calls nest. */
  block(from: string, to: string): void {
    const key = pair(from, to);
    this.#blocks.set(key, (this.#blocks.get(key) ?? 0) + 1);
  }

  /** Undoes one `block`; connections deliver what they held. */
  unblock(from: string, to: string): void {
    const key = pair(from, to);
    const left = (this.#blocks.get(key) ?? 0) - 1;
    if (left > 0) this.#blocks.set(key, left);
    else if (this.#blocks.delete(key)) this.#flush(from, to);
  }

  /** Removes every block. */
  heal(): void {
    const keys = [...this.#blocks.keys()];
    this.#blocks.clear();
    for (const key of keys) {
      const [from, to] = key.split(SEPARATOR) as [string, string];
      this.#flush(from, to);
    }
    for (const row of this.#links.values()) for (const link of row.values()) link.cloggedUntil = 0;
  }

  blocked(from: string, to: string): boolean {
    return this.#blocks.size > 0 && this.#blocks.has(pair(from, to));
  }

  link(from: string, to: string): Link {
    let row = this.#links.get(from);
    if (row === undefined) this.#links.set(from, (row = new Map<string, Link>()));
    let link = row.get(to);
    if (link === undefined) row.set(to, (link = new Link(this, this.#random.split(pair(from, to)))));
    return link;
  }

  listener(name: string): ConnectionHandler | undefined {
    return this.#listeners.get(name);
  }

  arrive(to: string, action: () => void): void {
    const inbox = this.#inboxes.get(to);
    if (inbox === undefined) action();
    else inbox.push(action);
  }

  #flush(from: string, to: string): void {
    for (const connection of [...this.#connections]) connection.flush(from, to);
  }
}

const SEPARATOR = '>';

function pair(from: string, to: string): string {
  return from + SEPARATOR + to;
}
