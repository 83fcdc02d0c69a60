/** @file Cuts a stream of bytes into frames; tells its source where the next bytes should land. */
import { bufferPool } from '../bytes/buffer-pool.ts';
import { FirstMemory } from '../bytes/first-memory.ts';
import { checkLimit, protocolError } from '../errors.ts';
import { BASE_HEADER_BYTES, CALL_HEADER_BYTES, FrameHeader, FrameKind, headerBytes, readHeader } from './header.ts';
import { DEFAULT_WIRE_LIMITS, FIRST_SLAB_BYTES, RECEIVE_SLAB_BYTES, type WireLimits } from '../limits.ts';

/** Told of what a connection receives. Everything is called synchronously out of `received`; a throw there means the end of the connection. */
export interface FrameSink {
  /** A whole frame, of any kind but BODY. The payload is `bytes[start, end)`; it and `header` are only valid during the call. */
  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void;
  /**
   * A BODY of `header.length` bytes begins. Returns the memory it lands in, exactly that long, or undefined to let it pass. The memory
   * must stay untouched by others until `bodyEnd`.
   */
  body(header: FrameHeader): Uint8Array | undefined;
  /** The memory that `body` gave is free again: `landed` bytes of it were filled, fewer than its length only when the connection ended. */
  bodyEnd(header: FrameHeader, landed: number): void;
}

/** What may arrive: before authentication only small HANDSHAKE frames. */
export type ReaderPhase = 'handshake' | 'open';

/** A read after a body chunk asks for no more than this beyond a frame that has begun, so that little of the next chunk must be copied. */
const AFTER_BODY_BYTES = 1024;
/** First memory of a frame that is longer than the slab; it doubles as bytes really arrive. */
const FIRST_LARGE_BYTES = 1024 * 1024;
/** Up to this a body's rest is read together with what follows it: a read of its own would cost more than the copy. */
const SMALL_BODY_REST = 4096;
/** Apart from what writers use: readers keep theirs for as long as their connection lasts. */
const firstMemory = new FirstMemory();

/**
 * Incremental. `nextBuffer` names the memory for the next bytes and `received` says how many came: a connection's byte sink.
 * Small frames are parsed where they landed; body bytes land in their destination; nothing is allocated before the length passed its limit.
 */
export class FrameReader {
  phase: ReaderPhase = 'handshake';
  private readonly sink: FrameSink;
  private readonly limits: WireLimits;
  private readonly slabBytes: number;
  /** Small until one read has filled it. */
  private slab: Uint8Array;
  private view: DataView;
  private at = 0;
  private filled = 0;
  private readonly header = new FrameHeader();
  /** A frame longer than the slab, and how much of it is there. */
  private large: Uint8Array | undefined;
  private largeGot = 0;
  /** Rest of the body that is landing; `undefined` target = thrown away. */
  private bodyLeft = 0;
  private bodyTarget: Uint8Array | undefined;
  private afterBody = false;
  /** What is missing of a frame that has begun in the slab and whose header is known. */
  private owed = 0;
  private closed = false;

  constructor(sink: FrameSink, limits: WireLimits = DEFAULT_WIRE_LIMITS, slabBytes = RECEIVE_SLAB_BYTES) {
    this.sink = sink;
    this.limits = limits;
    this.slabBytes = slabBytes;
    this.slab = slabBytes > FIRST_SLAB_BYTES ? firstMemory.take() : new Uint8Array(slabBytes);
    this.view = new DataView(this.slab.buffer, this.slab.byteOffset, this.slab.length);
  }

  /** Whether a frame has begun and is not complete: the peer owes bytes. */
  get midFrame(): boolean {
    return this.bodyLeft > 0 || this.large !== undefined || this.filled > this.at;
  }

  /** The memory for the next bytes, at least one byte. Valid until the next `received` or `close`. */
  nextBuffer(): Uint8Array {
    const target = this.bodyTarget;
    if (this.bodyLeft > SMALL_BODY_REST && target !== undefined) return target.subarray(target.length - this.bodyLeft);
    if (this.large !== undefined) return this.largeRoom(this.large);
    if (this.filled === this.slab.length && this.slab.length < this.slabBytes) this.grow();
    else if (this.at === this.filled) this.at = this.filled = 0;
    else if (this.slab.length - this.filled < BASE_HEADER_BYTES || this.at > this.slab.length >> 1) this.compact();
    const most = this.afterBody && this.bodyLeft === 0 ? AFTER_BODY_BYTES + this.owed : this.slab.length;
    return this.slab.subarray(this.filled, Math.min(this.slab.length, this.filled + most));
  }

  /** `count` bytes are in what `nextBuffer` returned. Throws WireError when they break the protocol: close the connection. */
  received(count: number): void {
    if (this.closed) return;
    if (this.bodyLeft > SMALL_BODY_REST && this.bodyTarget !== undefined) {
      this.bodyLeft -= count;
      if (this.bodyLeft === 0) this.endBody();
      return;
    }
    if (this.large !== undefined) {
      this.largeGot += count;
      if (this.largeGot === this.header.length) this.endLarge();
      return;
    }
    this.filled += count;
    if (this.bodyLeft > 0) this.copyBody();
    this.parse();
  }

  /** The same for bytes that are already somewhere else: copies them through. */
  push(chunk: Uint8Array): void {
    let done = 0;
    while (done < chunk.length && !this.closed) {
      const room = this.nextBuffer();
      const count = Math.min(room.length, chunk.length - done);
      room.set(chunk.subarray(done, done + count));
      this.received(count);
      done += count;
    }
  }

  /** The connection is gone: frees the memory of a body that was landing. Nothing is delivered afterwards. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.large = undefined;
    const target = this.bodyTarget;
    if (target === undefined || this.bodyLeft === 0) return;
    const landed = target.length - this.bodyLeft;
    this.bodyTarget = undefined;
    this.bodyLeft = 0;
    this.sink.bodyEnd(this.header, landed);
  }

  private parse(): void {
    this.owed = 0;
    while (!this.closed && this.bodyLeft === 0) {
      const have = this.filled - this.at;
      if (have < BASE_HEADER_BYTES) return;
      const size = headerBytes(this.slab[this.at] as number);
      if (size === 0) throw protocolError(`unknown frame kind ${this.slab[this.at] as number}`);
      if (have < size) return;
      const header = this.header;
      readHeader(this.view, this.at, header);
      this.checkLength(header, size);
      if (header.kind === FrameKind.BODY) {
        this.at += size;
        this.beginBody(header);
      } else if (have >= size + header.length) {
        const start = this.at + size;
        this.at = start + header.length;
        this.afterBody = false;
        this.sink.frame(header, this.slab, start, this.at);
      } else {
        if (size + header.length > this.slabBytes) this.beginLarge(size);
        else if (size + header.length > this.slab.length) this.grow();
        this.owed = size + header.length - have;
        return;
      }
    }
  }

  private checkLength(header: FrameHeader, size: number): void {
    const { kind, length } = header;
    const limits = this.limits;
    if (this.phase === 'handshake') {
      if (kind !== FrameKind.HANDSHAKE) throw protocolError('a frame before the handshake is done');
      checkLimit('handshake frame', length, limits.maxHandshakeBytes);
    } else if (size === CALL_HEADER_BYTES) {
      checkLimit('frame', length, limits.maxFrameBytes);
      checkLimit('function name', header.nameLength, limits.maxNameBytes);
      checkLimit('header table', header.tableLength, limits.maxHeaderTableBytes);
      checkLimit('tensors', header.tensorCount, limits.maxTensors);
    } else if (kind === FrameKind.BODY) {
      checkLimit('body chunk', length, limits.maxBodyChunkBytes);
    } else if (size === BASE_HEADER_BYTES) {
      checkLimit(
        'control frame',
        length,
        kind === FrameKind.HANDSHAKE ? limits.maxHandshakeBytes : limits.maxControlBytes,
      );
    } else if (length !== 0) {
      throw protocolError(`a frame of kind ${kind} has no payload`);
    }
  }

  private beginBody(header: FrameHeader): void {
    const target = this.sink.body(header);
    if (target !== undefined && target.length !== header.length)
      throw new Error('invariant: body memory of another length');
    this.bodyTarget = target;
    this.bodyLeft = header.length;
    this.afterBody = true;
    if (header.length === 0) this.endBody();
    else this.copyBody();
  }

  /** Moves what the slab holds of the landing body to its destination. */
  private copyBody(): void {
    const count = Math.min(this.bodyLeft, this.filled - this.at);
    const target = this.bodyTarget;
    if (target !== undefined && count > 0)
      target.set(this.slab.subarray(this.at, this.at + count), target.length - this.bodyLeft);
    this.at += count;
    this.bodyLeft -= count;
    if (this.bodyLeft === 0) this.endBody();
  }

  private endBody(): void {
    const target = this.bodyTarget;
    this.bodyTarget = undefined;
    if (target !== undefined) this.sink.bodyEnd(this.header, target.length);
  }

  private beginLarge(size: number): void {
    const from = this.at + size;
    const got = this.filled - from;
    const large = bufferPool.take(Math.min(this.header.length, Math.max(FIRST_LARGE_BYTES, got)));
    large.set(this.slab.subarray(from, this.filled));
    this.large = large;
    this.largeGot = got;
    this.at = this.filled = 0;
  }

  private largeRoom(large: Uint8Array): Uint8Array {
    if (this.largeGot < large.length) return large.subarray(this.largeGot);
    const more = bufferPool.take(Math.min(this.header.length, large.length * 2));
    more.set(large);
    bufferPool.give(large);
    this.large = more;
    return more.subarray(this.largeGot);
  }

  private endLarge(): void {
    const large = this.large as Uint8Array;
    this.large = undefined;
    this.afterBody = false;
    try {
      this.sink.frame(this.header, large, 0, large.length);
    } finally {
      bufferPool.give(large);
    }
  }

  private grow(): void {
    const slab = new Uint8Array(this.slabBytes);
    slab.set(this.slab.subarray(this.at, this.filled));
    this.slab = slab;
    this.view = new DataView(slab.buffer);
    this.filled -= this.at;
    this.at = 0;
  }

  private compact(): void {
    this.slab.copyWithin(0, this.at, this.filled);
    this.filled -= this.at;
    this.at = 0;
  }
}
