/** @file Gloo's ring of gathering and its barrier, as steps: what to send to whom, and what to wait for. */

/** How a collective reaches the other ranks. */
export interface CollectivePort {
  send(rank: number, slot: bigint, bytes: Uint8Array): void;
  receive(rank: number, slot: bigint, length: number): void;
}

/** One collective under way. */
export interface Collective {
  readonly slot: bigint;
  start(): void;
  sent(): void;
  received(bytes: Uint8Array): void;
  readonly done: boolean;
}

const Kind = { ALL_GATHER: 2n, BARRIER: 7n } as const;

/** Where the messages of collective number `tag` lie. */
function slotOf(kind: bigint, tag: number): bigint {
  return (kind << 56n) | (BigInt(tag) << 24n);
}

/** Every rank's bytes at every rank: they go round the ring, in halves, two steps at a time. */
export class AllGather implements Collective {
  readonly slot: bigint;
  /** The bytes of all ranks, one after another. */
  readonly result: Uint8Array;
  private readonly rank: number;
  private readonly size: number;
  private readonly length: number;
  private readonly port: CollectivePort;
  private readonly steps: number;
  private begun = 0;
  private sends = 0;
  private receives = 0;
  private advancing = false;

  /** Every rank gives as many bytes. */
  constructor(rank: number, size: number, tag: number, own: Uint8Array, port: CollectivePort) {
    this.slot = slotOf(Kind.ALL_GATHER, tag);
    this.rank = rank;
    this.size = size;
    this.length = own.length;
    this.port = port;
    this.steps = own.length === 0 ? 0 : 2 * (size - 1);
    this.result = new Uint8Array(size * own.length);
    this.result.set(own, rank * own.length);
  }

  get done(): boolean {
    return this.sends === this.steps && this.receives === this.steps;
  }

  start(): void {
    this.advance();
  }

  sent(): void {
    this.sends++;
    this.advance();
  }

  received(bytes: Uint8Array): void {
    this.result.set(bytes, this.place(this.receives, 1).start);
    this.receives++;
    this.advance();
  }

  /** Begins what may be begun: two steps are under way at a time. A send may be over at once, before its step's receive is asked for. */
  private advance(): void {
    if (this.advancing) return;
    this.advancing = true;
    this.begin();
    this.advancing = false;
  }

  private begin(): void {
    const { rank, size, port, slot } = this;
    while (this.begun < this.steps && this.begun < 2 + Math.min(this.sends, this.receives)) {
      const step = this.begun++;
      const outgoing = this.place(step, 0);
      const incoming = this.place(step, 1);
      port.send((rank + 1) % size, slot, this.result.subarray(outgoing.start, outgoing.end));
      port.receive((rank + size - 1) % size, slot, incoming.end - incoming.start);
    }
  }

  /** The half of a segment that step `step` sends, or (`back` = 1) receives. */
  private place(step: number, back: 0 | 1): { start: number; end: number } {
    const { rank, size, length } = this;
    const segment = (rank - Math.floor(step / 2) - back + 2 * size) % size;
    const half = length >> 1;
    const start = segment * length;
    return step % 2 === 0 ? { start, end: start + half } : { start: start + half, end: start + length };
  }
}

/** Nobody goes on before all have come: in each round to a rank twice as far away. */
export class Barrier implements Collective {
  readonly slot: bigint;
  private readonly rank: number;
  private readonly size: number;
  private readonly port: CollectivePort;
  private distance = 1;
  private wasSent = false;
  private wasReceived = false;

  constructor(rank: number, size: number, tag: number, port: CollectivePort) {
    this.slot = slotOf(Kind.BARRIER, tag);
    this.rank = rank;
    this.size = size;
    this.port = port;
  }

  get done(): boolean {
    return this.distance >= this.size;
  }

  start(): void {
    if (!this.done) this.round();
  }

  sent(): void {
    this.wasSent = true;
    this.advance();
  }

  received(): void {
    this.wasReceived = true;
    this.advance();
  }

  private round(): void {
    const { rank, size, distance, port, slot } = this;
    this.wasSent = false;
    this.wasReceived = false;
    port.receive((rank + size - distance) % size, slot, 0);
    port.send((rank + distance) % size, slot, new Uint8Array(0));
  }

  private advance(): void {
    if (!this.wasSent || !this.wasReceived) return;
    this.distance *= 2;
    if (!this.done) this.round();
  }
}
