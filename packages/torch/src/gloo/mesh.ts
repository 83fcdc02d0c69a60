/** @file A rank in a full mesh: runs collectives one after another over its pairs, as torch's process group does while it starts. */
import { checkLimit, protocolError } from '@backwire/wire/internal';
import { AllGather, Barrier, type Collective } from './collectives.ts';
import { GlooPair } from './pair.ts';
import type { GlooSink } from './frame.ts';

/** How bytes reach another rank. Called synchronously, from inside an event. */
export interface MeshPort {
  write(rank: number, chunks: readonly Uint8Array[]): void;
}

/** What one rank may give to an `allGatherObjects`: names and device maps are far smaller. */
const MAX_OBJECT_BYTES = 1024 * 1024;

interface Running {
  readonly collective: Collective;
  readonly finished: () => void;
}

/** One rank. Collectives are numbered in the order in which they are called, which is the same on all ranks. */
export class GlooMesh {
  readonly rank: number;
  readonly size: number;
  private readonly pairs: readonly (GlooPair | undefined)[];
  private tag = 0;
  private running: Running | undefined;
  private readonly queued: (() => Running)[] = [];

  constructor(rank: number, size: number, port: MeshPort) {
    this.rank = rank;
    this.size = size;
    this.pairs = Array.from({ length: size }, (_, other) => (other === rank ? undefined : this.pairWith(other, port)));
  }

  /** What hears of the messages of the connection to `rank`; its program is `glooProgram(mesh.sink(rank))`. */
  sink(rank: number): GlooSink {
    return this.pair(rank);
  }

  /** Gathers as many bytes of every rank; `done` gets them one after another. */
  allGather(own: Uint8Array, done: (all: Uint8Array) => void): void {
    this.enqueue(() => {
      const gather = new AllGather(this.rank, this.size, this.tag++, own, this.collectivePort);
      return { collective: gather, finished: () => done(gather.result) };
    });
  }

  /** Gathers bytes of any number of every rank: first how many, then themselves, each filled up to the longest. */
  allGatherObjects(own: Uint8Array, done: (all: Uint8Array[]) => void): void {
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigInt64(0, BigInt(own.length), true);
    this.allGather(length, (lengths) => {
      const view = new DataView(lengths.buffer);
      const sizes = Array.from({ length: this.size }, (_, rank) => Number(view.getBigInt64(8 * rank, true)));
      for (const size of sizes) {
        if (size < 0) throw protocolError(`an object of ${size} bytes`);
        checkLimit('object of a rank', size, MAX_OBJECT_BYTES);
      }
      const longest = Math.max(...sizes);
      const padded = new Uint8Array(longest);
      padded.set(own);
      this.allGather(padded, (all) =>
        done(sizes.map((size, rank) => all.slice(rank * longest, rank * longest + size))),
      );
    });
  }

  /** `done` is called when all ranks have come. */
  barrier(done: () => void): void {
    this.enqueue(() => ({
      collective: new Barrier(this.rank, this.size, this.tag++, this.collectivePort),
      finished: done,
    }));
  }

  /**
   * Whether what runs is a barrier with nothing open between this rank and `rank`, which may be through it then: nobody is before all have
   * come. Should a later round need it, it writes to it.
   */
  doesWithout(rank: number): boolean {
    return this.running?.collective instanceof Barrier && this.pair(rank).isIdle;
  }

  private readonly collectivePort = {
    send: (rank: number, slot: bigint, bytes: Uint8Array): void => this.pair(rank).send(slot, bytes),
    receive: (rank: number, slot: bigint, length: number): void => this.pair(rank).receive(slot, length),
  };

  private enqueue(make: () => Running): void {
    this.queued.push(make);
    if (this.running === undefined) this.next();
  }

  private next(): void {
    const make = this.queued.shift();
    if (make === undefined) return;
    this.running = make();
    this.running.collective.start();
    this.settle();
  }

  /** Goes on when what runs is done. */
  private settle(): void {
    const { running } = this;
    if (running === undefined || !running.collective.done) return;
    this.running = undefined;
    running.finished();
    if (this.running === undefined) this.next();
  }

  private pair(rank: number): GlooPair {
    const pair = this.pairs[rank];
    if (pair === undefined) throw new Error(`invariant: no pair with rank ${rank}`);
    return pair;
  }

  private pairWith(other: number, port: MeshPort): GlooPair {
    return new GlooPair({
      write: (chunks) => port.write(other, chunks),
      sent: (slot) => this.event(slot, (collective) => collective.sent()),
      received: (slot, bytes) => this.event(slot, (collective) => collective.received(bytes)),
    });
  }

  private event(slot: bigint, tell: (collective: Collective) => void): void {
    const { running } = this;
    if (running?.collective.slot !== slot) throw new Error('invariant: an answer to a collective that does not run');
    tell(running.collective);
    this.settle();
  }
}
