/** @file Reads a stream by a program that says how many bytes it wants next. */
import { RpcError } from '../errors.ts';
import type { ByteSink } from '../transports/transport.ts';

/** Yields a number of bytes it wants and is resumed with exactly those. They are valid until the next yield. */
export type ReadProgram = Generator<number, void, Uint8Array>;

const CHUNK_BYTES = 16 * 1024;

/**
 * A sink that runs a program over what arrives. A program that asks for more than a chunk gets memory of its own, so it has to check
 * lengths before it asks. When the program returns, what follows is refused.
 */
export class ByteReader implements ByteSink {
  private readonly program: ReadProgram;
  private readonly onClosed: (error?: Error) => void;
  private chunk = new Uint8Array(CHUNK_BYTES);
  private start = 0;
  private end = 0;
  private wanted = 0;
  private large: Uint8Array | undefined;
  private filled = 0;
  private finished = false;

  constructor(program: ReadProgram, onClosed: (error?: Error) => void) {
    this.program = program;
    this.onClosed = onClosed;
    this.ask(this.program.next());
  }

  nextBuffer(): Uint8Array {
    if (this.large !== undefined) return this.large.subarray(this.filled);
    if (this.start > 0) {
      this.chunk.copyWithin(0, this.start, this.end);
      this.end -= this.start;
      this.start = 0;
    }
    return this.chunk.subarray(this.end);
  }

  received(count: number): void {
    if (this.finished) throw new RpcError('protocol-error', 'bytes after the end');
    if (this.large !== undefined) {
      this.filled += count;
      if (this.filled < this.large.byteLength) return;
      const whole = this.large;
      this.large = undefined;
      this.ask(this.program.next(whole));
    } else {
      this.end += count;
    }
    while (!this.finished && this.large === undefined && this.end - this.start >= this.wanted) {
      const view = this.chunk.subarray(this.start, this.start + this.wanted);
      this.start += this.wanted;
      this.ask(this.program.next(view));
    }
  }

  closed(error?: Error): void {
    this.onClosed(error);
  }

  private ask(step: IteratorResult<number, void>): void {
    if (step.done) {
      this.finished = true;
      return;
    }
    this.wanted = step.value;
    if (this.wanted <= CHUNK_BYTES) return;
    this.large = new Uint8Array(this.wanted);
    this.filled = Math.min(this.end - this.start, this.wanted);
    this.large.set(this.chunk.subarray(this.start, this.start + this.filled));
    this.start += this.filled;
  }
}
