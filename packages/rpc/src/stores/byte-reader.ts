/** @file Reads a stream by a program that says how many bytes it wants next. */
import { RpcError } from '../base/errors.ts';
import type { ByteSink } from '../transports/transport.ts';

/**
 * Yields a number of bytes it wants, or the memory that they go to, and is resumed with exactly those. What it gave no memory for is valid
 * until the next yield.
 */
export type ReadProgram = Generator<number | Uint8Array, void, Uint8Array>;

const CHUNK_BYTES = 16 * 1024;

/**
 * A sink that runs a program over what arrives. A program that asks for more than a chunk gets memory of its own, so it has to check
 * lengths before it asks; memory that it gives itself is filled from the connection directly. When the program returns, what follows is refused.
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
    if (this.large !== undefined) this.filled += count;
    else this.end += count;
    while (!this.finished && this.step());
  }

  /** Resumes the program if what it wants is there; whether it was. */
  private step(): boolean {
    const { large } = this;
    if (large !== undefined) {
      if (this.filled < large.byteLength) return false;
      this.large = undefined;
      this.ask(this.program.next(large));
      return true;
    }
    if (this.end - this.start < this.wanted) return false;
    const view = this.chunk.subarray(this.start, this.start + this.wanted);
    this.start += this.wanted;
    this.ask(this.program.next(view));
    return true;
  }

  closed(error?: Error): void {
    this.onClosed(error);
  }

  private ask({ done, value }: IteratorResult<number | Uint8Array, void>): void {
    if (done === true) {
      this.finished = true;
      return;
    }
    const memory = typeof value === 'number' ? undefined : value;
    this.wanted = typeof value === 'number' ? value : value.byteLength;
    if (memory === undefined && this.wanted <= CHUNK_BYTES) return;
    this.large = memory ?? new Uint8Array(this.wanted);
    this.filled = Math.min(this.end - this.start, this.wanted);
    this.large.set(this.chunk.subarray(this.start, this.start + this.filled));
    this.start += this.filled;
  }
}
