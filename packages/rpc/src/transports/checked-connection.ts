/** @file A connection whose bytes carry checksums: what was altered on the way ends it before anybody has seen it. */
import { RpcError } from '../base/errors.ts';
import { crc32, soon } from '../base/platform.ts';
import type { Protection } from '../security/protection.ts';
import type { ByteSink, Connection } from './transport.ts';

/*
 * Records: u32 length ‖ u32 CRC-32 of the payload that begins with the length ‖ payload, little-endian. What is written in small parts goes together; a
 * part of more than SMALL_BYTES is a record of its own, or several, so that it can land where it belongs without a copy. The checksum finds
 * accidents and flipped bits; whoever can rewrite the connection can rewrite it as well, which only encryption prevents.
 */

const HEAD_BYTES = 8;
/** Small parts are joined up to this; it is also what is read at once. */
const SMALL_BYTES = 64 * 1024;
const MAX_RECORD_BYTES = 1024 * 1024;
/** After a large record little is read at once: the next one is large too, and should land in its own place. */
const AFTER_LARGE_BYTES = 1024;

export class CheckedConnection implements Connection {
  private readonly inner: Connection;
  private sink: ByteSink | undefined;
  /** Heads and small records, from `at` to `filled`. */
  private readonly slab = new Uint8Array(SMALL_BYTES + HEAD_BYTES);
  private readonly view = new DataView(this.slab.buffer);
  private at = 0;
  private filled = 0;
  /** A record that is larger than what is here: where it lands, and how much of it has. */
  private target: Uint8Array | undefined;
  private got = 0;
  private crc = 0;
  private expected = 0;
  /** Whether it lands in the sink's own memory. */
  private direct = false;
  private afterLarge = false;
  private readonly below: ByteSink = {
    nextBuffer: () => this.nextBuffer(),
    received: (count) => this.received(count),
    closed: (error) => this.ended(error),
  };

  constructor(inner: Connection) {
    this.inner = inner;
  }

  get kind(): string {
    return this.inner.kind;
  }
  get remote(): string {
    return this.inner.remote;
  }
  get protection(): Protection {
    return this.inner.protection;
  }
  get pieceBytes(): number | undefined {
    return this.inner.pieceBytes;
  }
  get paced(): boolean {
    return this.inner.paced;
  }
  get bufferedBytes(): number {
    return this.inner.bufferedBytes;
  }
  get sentBytes(): number {
    return this.inner.sentBytes;
  }
  get receivedBytes(): number {
    return this.inner.receivedBytes;
  }
  get closed(): boolean {
    return this.inner.closed;
  }

  attach(sink: ByteSink | undefined): void {
    this.keepLanding();
    this.sink = sink;
    if (sink === undefined || this.filled === this.at) {
      this.inner.attach(sink === undefined ? undefined : this.below);
      return;
    }
    // What was read for the sink before goes to this one first, but not inside of its call.
    soon((own) => {
      if (this.sink !== own) return;
      try {
        this.deliver();
      } catch (error) {
        this.inner.destroy(error as Error);
      }
      if (this.sink === own) this.inner.attach(this.below);
    }, sink);
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    const out: Uint8Array[] = [];
    let small: Uint8Array[] = [];
    let bytes = 0;
    const flush = (): void => {
      if (bytes > 0) addRecord(out, small, bytes);
      small = [];
      bytes = 0;
    };
    for (const chunk of chunks) {
      if (chunk.length === 0) continue;
      if (chunk.length > SMALL_BYTES) {
        flush();
        for (let from = 0; from < chunk.length; from += MAX_RECORD_BYTES) {
          const part = chunk.subarray(from, from + MAX_RECORD_BYTES);
          addRecord(out, [part], part.length);
        }
        continue;
      }
      if (bytes + chunk.length > SMALL_BYTES) flush();
      small.push(chunk);
      bytes += chunk.length;
    }
    flush();
    this.inner.write(out, onFlushed);
  }

  close(): void {
    this.inner.close();
  }

  destroy(error?: Error): void {
    this.inner.destroy(error);
  }

  private nextBuffer(): Uint8Array {
    if (this.target !== undefined) return this.target.subarray(this.got);
    if (this.at > 0) {
      this.slab.copyWithin(0, this.at, this.filled);
      this.filled -= this.at;
      this.at = 0;
    }
    const most = this.afterLarge ? Math.max(AFTER_LARGE_BYTES, this.filled + 1) : this.slab.length;
    return this.slab.subarray(this.filled, most);
  }

  private received(count: number): void {
    if (this.target === undefined) this.filled += count;
    else this.landed(this.target, count);
    this.deliver();
  }

  private ended(error: Error | undefined): void {
    const { sink } = this;
    this.sink = undefined;
    sink?.closed(error);
  }

  /** Gives the sink all whole records that are in the slab. */
  private deliver(): void {
    while (this.sink !== undefined && this.target === undefined && this.filled - this.at >= HEAD_BYTES) {
      const length = this.view.getUint32(this.at, true);
      if (length === 0 || length > MAX_RECORD_BYTES) throw this.altered();
      const from = this.at + HEAD_BYTES;
      if (this.filled - from >= length) {
        const payload = this.slab.subarray(from, from + length);
        if (this.view.getUint32(this.at + 4, true) !== crc32(payload, length)) throw this.altered();
        this.at = from + length;
        this.afterLarge = false;
        this.push(payload);
      } else if (length > SMALL_BYTES) this.beginLarge(length);
      else return;
    }
  }

  /** A record that does not fit into the slab: into the sink's memory if that takes all of it, else into memory of its own. */
  private beginLarge(length: number): void {
    const { sink, at, filled } = this;
    const room = sink?.nextBuffer();
    this.direct = room !== undefined && room.length >= length;
    const target = this.direct && room !== undefined ? room.subarray(0, length) : new Uint8Array(length);
    const here = this.slab.subarray(at + HEAD_BYTES, filled);
    target.set(here);
    this.expected = this.view.getUint32(at + 4, true);
    this.crc = crc32(here, length);
    this.got = here.length;
    this.target = target;
    this.at = this.filled = 0;
  }

  private landed(target: Uint8Array, count: number): void {
    this.crc = crc32(target.subarray(this.got, this.got + count), this.crc);
    this.got += count;
    if (this.got < target.length) return;
    if (this.crc !== this.expected) throw this.altered();
    this.target = undefined;
    this.afterLarge = true;
    if (this.direct) this.sink?.received(target.length);
    else this.push(target);
  }

  private push(payload: Uint8Array): void {
    for (let done = 0; done < payload.length;) {
      const { sink } = this;
      if (sink === undefined) return;
      const room = sink.nextBuffer();
      const count = Math.min(room.length, payload.length - done);
      room.set(payload.subarray(done, done + count));
      sink.received(count);
      done += count;
    }
  }

  /** The memory in which a record lands belongs to a sink that goes. */
  private keepLanding(): void {
    if (this.target === undefined || !this.direct) return;
    this.target = Uint8Array.from(this.target);
    this.direct = false;
  }

  private altered(): RpcError {
    return new RpcError('protocol-error', `bytes of ${this.remote} were altered on the way: their checksum is wrong`);
  }
}

function addRecord(out: Uint8Array[], parts: readonly Uint8Array[], bytes: number): void {
  const head = new Uint8Array(HEAD_BYTES);
  const view = new DataView(head.buffer);
  view.setUint32(0, bytes, true);
  let crc = bytes;
  for (const part of parts) crc = crc32(part, crc);
  view.setUint32(4, crc, true);
  out.push(head, ...parts);
}
