/** @file A simulated connection: two FIFO directions that can be held, damaged, half-closed and reset like a TCP stream. */
import type { VirtualClock } from './clock.ts';
import type { LinkRates } from './faults.ts';
import type { Random } from './random.ts';

/** Why an end closed: nobody listened, the connection broke, or the peer closed it after its last message. */
type CloseReason = 'refused' | 'reset' | 'closed';

/** One end of a simulated connection. Assign the handlers in the same event in which the end was obtained. */
export interface End {
  readonly local: string;
  readonly remote: string;
  readonly state: 'connecting' | 'open' | 'closed';
  onOpen: (() => void) | undefined;
  onMessage: ((data: unknown) => void) | undefined;
  onClose: ((reason: CloseReason) => void) | undefined;
  /** Sends a message that counts as so many bytes, or bytes; ignored when closed. The data must not be changed afterwards. */
  send(data: unknown, bytes?: number): void;
  /** Closes this end; the peer sees everything sent before, then `closed`. */
  close(): void;
}

/** Receives the connections made to a node. */
export type ConnectionHandler = (end: End) => void;

/** What a connection needs of the network it runs over. */
export interface Wire {
  readonly clock: VirtualClock;
  /** The rates and random stream of one direction. */
  link(
    from: string,
    to: string,
  ): { readonly rates: LinkRates; readonly random: Random; arrival(bytes: number): number };
  /** True while nothing may pass. */
  blocked(from: string, to: string): boolean;
  /** Runs `action` at the node unless it is paused (then later) or down (then never). */
  arrive(to: string, action: () => void): void;
  listener(name: string): ConnectionHandler | undefined;
}

/** A connection between a dialer and a listener; made by `SimNetwork.connect`. */
export class Connection {
  readonly dialer: SimEnd;
  readonly acceptor: SimEnd;
  readonly #wire: Wire;
  readonly #gone: () => void;
  #accepted = false;

  constructor(wire: Wire, from: string, to: string, gone: () => void) {
    this.#wire = wire;
    this.#gone = gone;
    this.dialer = new SimEnd(wire, this, from, to);
    this.acceptor = new SimEnd(wire, this, to, from);
  }

  /** The end at the other side of `end`. */
  opposite(end: SimEnd): SimEnd {
    return end === this.dialer ? this.acceptor : this.dialer;
  }

  touches(name: string): boolean {
    return this.dialer.local === name || this.acceptor.local === name;
  }

  /** Carries the connection request; the answer travels back over the same faulty links. */
  dial(): void {
    this.dialer.transmit(() => {
      const accept = this.#wire.listener(this.acceptor.local);
      if (accept === undefined) {
        this.acceptor.state = 'closed';
        this.acceptor.transmit(() => this.dialer.finish('refused'));
        return;
      }
      this.#accepted = true;
      this.acceptor.state = 'open';
      this.acceptor.transmit(() => this.dialer.opened());
      accept(this.acceptor);
    });
  }

  /** Breaks the connection now: what is in flight is lost and both ends are told, each after its own delay. */
  reset(): void {
    this.dialer.sever();
    this.acceptor.sever();
    this.acceptor.transmit(() => this.dialer.finish('reset'));
    if (this.#accepted) this.dialer.transmit(() => this.acceptor.finish('reset'));
    else this.acceptor.state = 'closed';
  }

  /** The process at `name` died: its end is silent at once, the other end gets what was on the way and then a reset. */
  crash(name: string): void {
    for (const end of [this.dialer, this.acceptor]) {
      if (end.local !== name) continue;
      const peer = this.opposite(end);
      end.mute();
      peer.sever();
      end.transmit(() => peer.finish('reset'));
    }
  }

  /** Delivers what a partition held back from `from` to `to`. */
  flush(from: string, to: string): void {
    for (const end of [this.dialer, this.acceptor]) {
      if (end.local === from && end.remote === to) end.flush();
    }
  }

  /** Forgets the connection once both ends are closed. */
  settle(): void {
    if (this.dialer.state === 'closed' && this.acceptor.state === 'closed') this.#gone();
  }
}

interface InFlight {
  data: unknown;
  readonly arrived: (data: unknown) => void;
  readonly damageable: boolean;
  landed: boolean;
  lost: boolean;
}

class SimEnd implements End {
  readonly local: string;
  readonly remote: string;
  state: 'connecting' | 'open' | 'closed' = 'connecting';
  onOpen: (() => void) | undefined;
  onMessage: ((data: unknown) => void) | undefined;
  onClose: ((reason: CloseReason) => void) | undefined;
  readonly #wire: Wire;
  readonly #connection: Connection;
  readonly #held: InFlight[] = [];
  #flying = new Set<InFlight>();
  #lastArrival = 0;
  #last: InFlight | undefined;

  constructor(wire: Wire, connection: Connection, local: string, remote: string) {
    this.#wire = wire;
    this.#connection = connection;
    this.local = local;
    this.remote = remote;
  }

  send(data: unknown, size = 0): void {
    if (this.state !== 'open') return;
    const link = this.#wire.link(this.local, this.remote);
    const { reset, truncate, flip, split, merge } = link.rates;
    if (link.random.chance(reset)) {
      this.#connection.reset();
      return;
    }
    if (!(data instanceof Uint8Array)) {
      this.#fly(data, size);
      return;
    }
    let bytes = data.slice();
    if (link.random.chance(flip) && bytes.length > 0) {
      const at = link.random.int(0, bytes.length);
      bytes[at] = (bytes[at] as number) ^ (1 << link.random.int(0, 8));
    }
    if (link.random.chance(truncate)) {
      this.#fly(bytes.subarray(0, link.random.int(0, bytes.length + 1)));
      this.#last = undefined;
      this.#wire.clock.at(this.#lastArrival, `${this.local}>${this.remote} truncated`, () => this.#connection.reset());
      return;
    }
    if (link.random.chance(merge) && this.#joinPrevious(bytes)) return;
    if (link.random.chance(split) && bytes.length > 1) {
      const cut = link.random.int(1, bytes.length);
      this.#fly(bytes.subarray(0, cut));
      bytes = bytes.subarray(cut);
    }
    this.#fly(bytes);
  }

  close(): void {
    if (this.state === 'closed') return;
    const opposite = this.#connection.opposite(this);
    this.state = 'closed';
    this.#detachHandlers();
    this.transmit(() => opposite.finish('closed'));
    this.#connection.settle();
  }

  /** Moves something to the peer in order with the data; runs there when it arrives. */
  transmit(action: () => void): void {
    this.#launch({ data: undefined, arrived: action, damageable: false, landed: false, lost: false });
  }

  opened(): void {
    if (this.state !== 'connecting') return;
    this.state = 'open';
    this.onOpen?.();
  }

  /** The end learns that it is closed. */
  finish(reason: CloseReason): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    const tell = this.onClose;
    this.#detachHandlers();
    this.#connection.settle();
    tell?.(reason);
  }

  /** The process of this end is gone: nothing is called any more. */
  mute(): void {
    this.state = 'closed';
    this.#detachHandlers();
  }

  /** Loses what this end has in flight. */
  sever(): void {
    for (const item of this.#flying) item.lost = true;
    this.#flying = new Set();
    this.#held.length = 0;
    this.#last = undefined;
  }

  flush(): void {
    while (this.#held.length > 0) {
      const item = this.#held.shift() as InFlight;
      this.#land(item);
    }
  }

  #fly(data: unknown, size = data instanceof Uint8Array ? data.length : 0): void {
    const opposite = this.#connection.opposite(this);
    const item: InFlight = {
      data,
      damageable: data instanceof Uint8Array,
      landed: false,
      lost: false,
      arrived: (value) => {
        if (opposite.state === 'open') opposite.onMessage?.(value);
      },
    };
    this.#launch(item, size);
  }

  #launch(item: InFlight, size = 0): void {
    const time = Math.max(this.#wire.link(this.local, this.remote).arrival(size), this.#lastArrival);
    this.#lastArrival = time;
    this.#last = item;
    this.#flying.add(item);
    this.#wire.clock.at(time, `${this.local}=${this.remote}`, () => {
      if (item.lost) return;
      if (this.#held.length > 0 || this.#wire.blocked(this.local, this.remote)) this.#held.push(item);
      else this.#land(item);
    });
  }

  #land(item: InFlight): void {
    item.landed = true;
    this.#flying.delete(item);
    this.#wire.arrive(this.remote, () => {
      if (!item.lost) item.arrived(item.data);
    });
  }

  #joinPrevious(bytes: Uint8Array): boolean {
    const last = this.#last;
    if (last === undefined || last.landed || last.lost || !last.damageable) return false;
    const before = last.data as Uint8Array;
    const joined = new Uint8Array(before.length + bytes.length);
    joined.set(before);
    joined.set(bytes, before.length);
    last.data = joined;
    return true;
  }

  #detachHandlers(): void {
    this.onOpen = undefined;
    this.onMessage = undefined;
    this.onClose = undefined;
  }
}
