/** @file Two ranks of a Gloo mesh: sends wait for receives, by slots. */
import { protocolError } from '@backwire/wire/internal';
import { GlooOp, glooHead, type GlooSink } from './frame.ts';

/** What a pair tells. Called synchronously, from inside an event. */
export interface PairPort {
  write(chunks: readonly Uint8Array[]): void;
  /** The oldest send in this slot was written. */
  sent(slot: bigint): void;
  /** The oldest receive in this slot has its bytes. */
  received(slot: bigint, bytes: Uint8Array): void;
}

/** Slots in which the other side has said something, and this one nothing yet: it may be ahead by a collective or two. */
const MAX_SLOTS = 64;
/** Things said in one slot that have not been answered: each collective has two under way. */
const MAX_READY = 64;

interface Slot {
  /** Receives of the other side that no send of ours has answered. */
  wanted: number;
  /** Sends of the other side that no receive of ours has answered. */
  announced: number;
  readonly sends: Uint8Array[];
  readonly receives: number[];
}

/** One side of a connection between two ranks. */
export class GlooPair implements GlooSink {
  private readonly port: PairPort;
  private readonly slots = new Map<bigint, Slot>();

  constructor(port: PairPort) {
    this.port = port;
  }

  /** Whether this side waits for nothing of the other. */
  get isIdle(): boolean {
    for (const { sends, receives } of this.slots.values()) if (sends.length > 0 || receives.length > 0) return false;
    return true;
  }

  /** Sends bytes, which stay unchanged until they are `sent`. */
  send(slot: bigint, bytes: Uint8Array): void {
    this.port.write([glooHead(GlooOp.SEND_READY, slot, bytes.length)]);
    const state = this.slot(slot);
    state.sends.push(bytes);
    this.flush(slot, state);
  }

  receive(slot: bigint, length: number): void {
    this.slot(slot).receives.push(length);
    this.port.write([glooHead(GlooOp.RECEIVE_READY, slot, length)]);
  }

  ready(kind: 'send' | 'receive', slot: bigint, _length: number): void {
    const state = this.slot(slot);
    if (kind === 'send') {
      if (++state.announced > MAX_READY) throw protocolError('more sends than are taken');
      return;
    }
    if (++state.wanted > MAX_READY) throw protocolError('more receives than are answered');
    this.flush(slot, state);
  }

  memoryFor(slot: bigint, length: number): Uint8Array {
    const [expected] = this.slots.get(slot)?.receives ?? [];
    if (expected === undefined) throw protocolError('bytes that nobody waits for');
    if (expected !== length) throw protocolError(`${length} bytes where ${expected} are waited for`);
    return new Uint8Array(length);
  }

  data(slot: bigint, bytes: Uint8Array): void {
    const state = this.slot(slot);
    state.receives.shift();
    if (state.announced > 0) state.announced--;
    this.tidy(slot, state);
    this.port.received(slot, bytes);
  }

  private slot(slot: bigint): Slot {
    const known = this.slots.get(slot);
    if (known !== undefined) return known;
    if (this.slots.size >= MAX_SLOTS) throw protocolError('more slots than collectives');
    const made: Slot = { wanted: 0, announced: 0, sends: [], receives: [] };
    this.slots.set(slot, made);
    return made;
  }

  /** Sends what the other side waits for. */
  private flush(slot: bigint, state: Slot): void {
    while (state.wanted > 0) {
      const bytes = state.sends.shift();
      if (bytes === undefined) return;
      state.wanted--;
      const head = glooHead(GlooOp.DATA, slot, bytes.length);
      this.port.write(bytes.length === 0 ? [head] : [head, bytes]);
      this.tidy(slot, state);
      this.port.sent(slot);
    }
  }

  private tidy(slot: bigint, { wanted, announced, sends, receives }: Slot): void {
    if (wanted === 0 && announced === 0 && sends.length === 0 && receives.length === 0) this.slots.delete(slot);
  }
}
