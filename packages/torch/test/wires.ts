/** @file Connections in memory: what one end writes arrives at the other in pieces, when the test says so. */
import { ByteReader, type ReadProgram } from '@backwire/rpc/internal';
import type { PipeConnection } from '../src/pipe/pipe.ts';

/** One end of a wire. */
export class WireEnd implements PipeConnection {
  /** What was written here and has not been delivered. */
  readonly outgoing: { chunks: Uint8Array[]; flushed: ((error?: Error) => void) | undefined }[] = [];
  /** All that was ever written here. */
  readonly written: Uint8Array[] = [];
  other!: WireEnd;
  ended: 'closed' | 'destroyed' | undefined;
  private reader: ByteReader | undefined;
  private onEnd: ((error?: Error) => void) | undefined;

  write(chunks: readonly Uint8Array[], flushed?: (error?: Error) => void): void {
    if (this.ended !== undefined) return flushed?.(new Error('written to a connection that has ended'));
    this.written.push(...chunks.map((chunk) => chunk.slice()));
    this.outgoing.push({ chunks: [...chunks], flushed });
  }

  close(): void {
    this.ended ??= 'closed';
  }

  destroy(error?: Error): void {
    if (this.ended !== undefined) return;
    this.ended = 'destroyed';
    for (const { flushed } of this.outgoing.splice(0)) flushed?.(error ?? new Error('destroyed'));
  }

  /** Runs a program over what arrives here; `onEnd` hears of the end, and of what the program threw. */
  run(program: ReadProgram, onEnd: (error?: Error) => void): void {
    this.onEnd = onEnd;
    try {
      this.reader = new ByteReader(program, onEnd);
    } catch (error) {
      this.failed(error as Error);
    }
  }

  /** Delivers what was written here to the other end, in pieces of at most `piece` bytes; whether there was anything. */
  deliver(piece: number): boolean {
    const next = this.outgoing.shift();
    if (next === undefined) {
      if (this.ended !== undefined && this.other.ended === undefined) {
        this.other.ended = 'closed';
        this.other.onEnd?.();
        return true;
      }
      return false;
    }
    for (const chunk of next.chunks) this.other.receive(chunk, piece);
    next.flushed?.();
    return true;
  }

  private receive(bytes: Uint8Array, piece: number): void {
    for (let at = 0; at < bytes.length && this.ended === undefined;) {
      const { reader } = this;
      // An end that only writes.
      if (reader === undefined) return;
      const room = reader.nextBuffer();
      const count = Math.min(piece, room.length, bytes.length - at);
      room.set(bytes.subarray(at, at + count));
      try {
        reader.received(count);
      } catch (error) {
        return this.failed(error as Error);
      }
      at += count;
    }
  }

  private failed(error: Error): void {
    this.destroy(error);
    this.onEnd?.(error);
  }
}

/** A wire with its two ends. */
export function wire(): readonly [WireEnd, WireEnd] {
  const [a, b] = [new WireEnd(), new WireEnd()];
  a.other = b;
  b.other = a;
  return [a, b];
}

/** All bytes that an end wrote, as one. */
export function writtenBy(end: WireEnd): Buffer {
  return Buffer.concat(end.written);
}
