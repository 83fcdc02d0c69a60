/** @file A connection whose large chunks the receiver reads out of the sender's memory; everything else goes through the socket below. */
import { randomBytes } from 'node:crypto';
import { DEFAULT_WIRE_LIMITS } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import type { CrossMemory } from './cma-memory.ts';
import { DISCARD, asError, closedError, copyTo, memoryOf } from './connection-parts.ts';
import { holdHelper, letHelperGo } from './memory-helper.ts';
import type { Protection } from '../security/protection.ts';
import type { ByteSink, Connection } from './transport.ts';

/*
 * Frames on the socket, little-endian, heads of 24 bytes: u8 type ‖ u8 0 ‖ u16 slot ‖ u32 length ‖ u64 address ‖ u64 generation.
 *
 *   HELLO   length = pid, address = that of the guards; 16 bytes of nonce follow
 *   READY   length = 1 when the sender of it could read the guards: from now on REMOTE may be sent to it
 *   INLINE  `length` bytes follow
 *   REMOTE  `length` bytes are at `address`; `slot` guards them
 *   DONE    the bytes of `slot` have been read, the sender may let go of them
 *   CLOSE   neither INLINE nor REMOTE comes any more
 *
 * A guard is the connection's nonce and a generation that changes when the memory is let go. It is read before and after the bytes, in
 * the same call: another process under the same number, or memory used for something else, shows.
 */

const HEAD_BYTES = 24;
const NONCE_BYTES = 16;
const GUARD_BYTES = NONCE_BYTES + 8;
/** Bytes the peer may have left to read; further chunks go through the socket. */
const SLOTS = 64;
/** DONEs that the socket has not taken: a peer that reads them has no more than its slots to wait for, and those of a turn or two on the way. */
const MAX_UNTAKEN_DONES = 16 * SLOTS;
/** From here on reading the memory beats two copies through the kernel. */
const REMOTE_BYTES = 256 * 1024;
/** One read: about a millisecond. */
const MAX_REMOTE_BYTES = DEFAULT_WIRE_LIMITS.maxBodyChunkBytes;
/** What is read in one turn of the event loop. */
const TURN_BYTES = 16 * 1024 * 1024;
const STAGING_BYTES = 64 * 1024;
/** One INLINE frame; its length has 32 bits. */
const MAX_INLINE_BYTES = 1024 * 1024 * 1024;
const LINGER_MS = 10_000;

const HELLO = 1;
const READY = 2;
const INLINE = 3;
const REMOTE = 4;
const DONE = 5;
const CLOSE = 6;

/** One `write`, of which some parts are still here or there. */
interface Writing {
  parts: number;
  error: Error | undefined;
  readonly onFlushed: ((error?: Error) => void) | undefined;
}

interface Slot {
  readonly bytes: number;
  readonly writing: Writing;
  /** Keeps the memory from being collected. */
  readonly chunk: Uint8Array;
}

interface Reading {
  readonly slot: number;
  readonly generation: bigint;
  address: bigint;
  left: number;
}

export class CmaConnection implements Connection {
  readonly kind = 'cma';
  readonly paced = false;
  readonly remote: string;
  readonly protection: Protection;
  bufferedBytes = 0;
  sentBytes = 0;
  receivedBytes = 0;
  closed = false;

  private readonly inner: Connection;
  private readonly memory: CrossMemory;
  private readonly nonce = randomBytes(NONCE_BYTES);
  private readonly guards = Buffer.alloc(SLOTS * GUARD_BYTES);
  private readonly slots: (Slot | undefined)[] = new Array<undefined>(SLOTS).fill(undefined);
  private readonly freeSlots: number[] = Array.from({ length: SLOTS }, (_, i) => i);
  private peer: { readonly pid: number; readonly guards: bigint; readonly nonce: Buffer } | undefined;
  private peerReads = false;

  private sink: ByteSink | undefined;
  private readonly staging = Buffer.alloc(STAGING_BYTES);
  private start = 0;
  private end = 0;
  /** Bytes of the current INLINE frame still to come. */
  private inline = 0;
  private reading: Reading | undefined;
  /** Whether the socket reads into the sink's memory now. */
  private direct = false;
  private working = false;
  private scheduled = false;
  private readonly before = Buffer.alloc(GUARD_BYTES);
  private readonly after = Buffer.alloc(GUARD_BYTES);
  /** DONE frames that are not written yet. */
  private readonly owed: Uint8Array[] = [];
  /** Those, and the ones that are written and that the socket has not taken. */
  private untakenDones = 0;
  private closing = false;
  private peerClosing = false;
  private linger: NodeJS.Timeout | undefined;
  private failure: Error | undefined;
  private readonly port: ByteSink = {
    nextBuffer: () => this.nextBuffer(),
    received: (count) => this.onReceived(count),
    closed: (error) => this.onClosed(error),
  };

  constructor(inner: Connection, memory: CrossMemory, remote = inner.remote) {
    this.inner = inner;
    this.memory = memory;
    this.remote = remote;
    this.protection = inner.protection;
    holdHelper();
    for (let slot = 0; slot < SLOTS; slot++) this.nonce.copy(this.guards, slot * GUARD_BYTES);
    inner.write([head(HELLO, 0, process.pid, memory.addressOf(this.guards), 0n), this.nonce]);
    inner.attach(this.port);
  }

  get pieceBytes(): number | undefined {
    return this.peerReads ? MAX_REMOTE_BYTES : undefined;
  }

  attach(sink: ByteSink | undefined): void {
    const before = this.sink;
    this.sink = sink;
    if (sink === before) return;
    if (this.closed) {
      if (sink !== undefined) process.nextTick(() => sink.closed(this.failure));
      return;
    }
    if (this.direct || sink === undefined) this.inner.attach(undefined);
    this.schedule((run) => process.nextTick(run));
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    if (this.closing || this.closed) {
      if (onFlushed !== undefined) process.nextTick(onFlushed, closedError(this.remote));
      return;
    }
    const writing: Writing = { parts: 1, error: undefined, onFlushed };
    const out: Uint8Array[] = [];
    let run: Uint8Array[] = [];
    let runBytes = 0;
    let inlineBytes = 0;
    const endRun = (): void => {
      if (runBytes > 0) out.push(head(INLINE, 0, runBytes, 0n, 0n), ...run);
      inlineBytes += runBytes;
      run = [];
      runBytes = 0;
    };
    for (const chunk of chunks) {
      this.bufferedBytes += chunk.byteLength;
      const address = this.offerable(chunk);
      if (address !== undefined) {
        endRun();
        this.offer(chunk, address, writing, out);
        continue;
      }
      for (let at = 0; at < chunk.byteLength; at += MAX_INLINE_BYTES) {
        const part = chunk.byteLength <= MAX_INLINE_BYTES ? chunk : chunk.subarray(at, at + MAX_INLINE_BYTES);
        if (runBytes + part.byteLength > MAX_INLINE_BYTES) endRun();
        run.push(part);
        runBytes += part.byteLength;
      }
    }
    endRun();
    const dones = this.owed.splice(0);
    this.inner.write([...dones, ...out], (error) => {
      this.untakenDones -= dones.length;
      this.finish(writing, inlineBytes, error);
    });
  }

  close(): void {
    if (this.closing || this.closed) return;
    this.closing = true;
    this.payOwed();
    this.inner.write([head(CLOSE, 0, 0, 0n, 0n)]);
    if (this.sink === undefined) this.attach(DISCARD);
    this.linger = setTimeout(() => this.inner.destroy(), LINGER_MS).unref();
    this.endIfDone();
  }

  destroy(error?: Error): void {
    this.inner.destroy(error);
  }

  /** Where a chunk is, when it may be read from there. */
  private offerable(chunk: Uint8Array): bigint | undefined {
    const frames = Math.ceil(chunk.byteLength / MAX_REMOTE_BYTES);
    if (!this.peerReads || chunk.byteLength < REMOTE_BYTES || frames > this.freeSlots.length) return undefined;
    try {
      return this.memory.addressOf(chunk);
    } catch {
      return undefined;
    }
  }

  private offer(chunk: Uint8Array, address: bigint, writing: Writing, out: Uint8Array[]): void {
    for (let at = 0; at < chunk.byteLength; at += MAX_REMOTE_BYTES) {
      const bytes = Math.min(MAX_REMOTE_BYTES, chunk.byteLength - at);
      const slot = this.freeSlots.pop() as number;
      this.slots[slot] = { bytes, writing, chunk };
      writing.parts++;
      const generation = this.guards.readBigUInt64LE(slot * GUARD_BYTES + NONCE_BYTES);
      out.push(head(REMOTE, slot, bytes, address + BigInt(at), generation));
    }
  }

  private release(slot: number, error?: Error): void {
    const held = this.slots[slot];
    if (held === undefined) throw new RpcError('protocol-error', `nothing was offered in slot ${slot}`);
    this.slots[slot] = undefined;
    this.freeSlots.push(slot);
    const at = slot * GUARD_BYTES + NONCE_BYTES;
    this.guards.writeBigUInt64LE(BigInt.asUintN(64, this.guards.readBigUInt64LE(at) + 1n), at);
    this.finish(held.writing, held.bytes, error);
  }

  /** One part of a write is over. */
  private finish(writing: Writing, bytes: number, error: Error | undefined | null): void {
    this.bufferedBytes -= bytes;
    if (error === undefined || error === null) this.sentBytes += bytes;
    else writing.error ??= error;
    if (--writing.parts === 0) writing.onFlushed?.(writing.error);
  }

  private nextBuffer(): Uint8Array {
    this.direct = this.inline >= STAGING_BYTES && this.start === this.end && this.sink !== undefined;
    if (this.direct) return memoryOf(this.sink as ByteSink).subarray(0, this.inline);
    if (this.start > 0) {
      this.staging.copyWithin(0, this.start, this.end);
      this.end -= this.start;
      this.start = 0;
    }
    return this.staging.subarray(this.end);
  }

  private onReceived(count: number): void {
    if (this.direct) {
      this.inline -= count;
      this.tell(count);
    } else {
      this.end += count;
    }
    this.work();
  }

  private tell(count: number): void {
    this.receivedBytes += count;
    this.sink?.received(count);
  }

  /** Goes through what has arrived, as far as there is a sink for it and the turn lasts. */
  private work(): void {
    if (this.working || this.closed || this.inner.closed) return;
    this.working = true;
    let budget = TURN_BYTES;
    let blocked = false;
    try {
      for (;;) {
        const data = this.reading !== undefined || (this.inline > 0 && this.start < this.end);
        blocked = data && (this.sink === undefined || budget <= 0);
        if (blocked) break;
        if (this.reading !== undefined) budget -= this.readSome(this.reading);
        else if (data) this.copySome();
        else if (this.inline > 0 || !this.takeHead()) break;
      }
    } catch (error) {
      this.inner.destroy(asError(error));
    } finally {
      this.working = false;
    }
    // A sink that went away in the middle of a large frame stops the socket; what is staged waits.
    if (blocked || (this.sink === undefined && this.inline > 0)) {
      this.inner.attach(undefined);
      if (this.sink !== undefined) this.schedule(setImmediate);
    } else {
      this.inner.attach(this.port);
    }
  }

  private schedule(later: (run: () => void) => unknown): void {
    if (this.scheduled) return;
    this.scheduled = true;
    later(() => {
      this.scheduled = false;
      this.work();
    });
  }

  private copySome(): void {
    const { sink, staging, start } = this;
    const count = copyTo(sink as ByteSink, staging, start, Math.min(this.end, start + this.inline));
    this.start += count;
    this.inline -= count;
    this.tell(count);
  }

  private readSome(reading: Reading): number {
    const { peer } = this;
    if (peer === undefined) throw new RpcError('protocol-error', 'memory was offered before HELLO');
    const memory = memoryOf(this.sink as ByteSink);
    const count = Math.min(memory.byteLength, reading.left);
    const guard = { address: peer.guards + BigInt(reading.slot * GUARD_BYTES), length: GUARD_BYTES };
    const ranges = [guard, { address: reading.address, length: count }, guard];
    const whole = this.memory.read(peer.pid, ranges, [this.before, memory.subarray(0, count), this.after]);
    if (!whole || ![this.before, this.after].every((seen) => isGuard(seen, peer.nonce, reading.generation))) {
      throw new RpcError('unavailable', `the memory of ${this.remote} is gone`);
    }
    reading.address += BigInt(count);
    reading.left -= count;
    if (reading.left === 0) {
      this.reading = undefined;
      this.owe(head(DONE, reading.slot, 0, 0n, 0n));
    }
    this.tell(count);
    return count;
  }

  /** The answer to what was read goes with it, or at the end of this turn: a write of its own would wake the peer twice. */
  private owe(done: Uint8Array): void {
    if (++this.untakenDones > MAX_UNTAKEN_DONES)
      throw new RpcError('protocol-error', 'offers go on whose ends are not read');
    if (this.owed.push(done) === 1) setImmediate(() => this.payOwed());
  }

  private payOwed(): void {
    const dones = this.owed.splice(0);
    if (dones.length > 0) this.inner.write(dones, () => (this.untakenDones -= dones.length));
  }

  /** Takes the next head, if it is there. */
  private takeHead(): boolean {
    const { staging, start } = this;
    const available = this.end - start;
    if (available < HEAD_BYTES) return false;
    const type = staging[start];
    if (type === HELLO && available < HEAD_BYTES + NONCE_BYTES) return false;
    this.start += HEAD_BYTES;
    const slot = staging.readUInt16LE(start + 2);
    const length = staging.readUInt32LE(start + 4);
    const address = staging.readBigUInt64LE(start + 8);
    const generation = staging.readBigUInt64LE(start + 16);
    if (this.peerClosing && (type === INLINE || type === REMOTE))
      throw new RpcError('protocol-error', 'bytes after CLOSE');
    switch (type) {
      case HELLO:
        this.onHello(length, address);
        return true;
      case READY:
        this.peerReads = length === 1;
        return true;
      case INLINE:
        this.inline = length;
        return true;
      case REMOTE:
        if (slot >= SLOTS || length > MAX_REMOTE_BYTES || length === 0)
          throw new RpcError('protocol-error', 'an offer past the limits');
        this.reading = { slot, generation, address, left: length };
        return true;
      case DONE:
        this.release(slot);
        this.endIfDone();
        return true;
      case CLOSE:
        this.peerClosing = true;
        this.close();
        this.endIfDone();
        return true;
      default:
        throw new RpcError('protocol-error', `an unknown frame ${type ?? -1}`);
    }
  }

  private onHello(pid: number, guards: bigint): void {
    if (this.peer !== undefined) throw new RpcError('protocol-error', 'HELLO was sent twice');
    const nonce = Buffer.from(this.staging.subarray(this.start, this.start + NONCE_BYTES));
    this.start += NONCE_BYTES;
    this.peer = { pid, guards, nonce };
    // Tried before it is relied on: the kernel may not allow it.
    const able =
      this.memory.read(pid, [{ address: guards, length: GUARD_BYTES }], [this.before]) &&
      isGuard(this.before, nonce, 0n);
    this.inner.write([head(READY, 0, able ? 1 : 0, 0n, 0n)]);
  }

  /** The socket ends once both sides have said that they end and all that was offered here has been read. */
  private endIfDone(): void {
    if (!this.closing || !this.peerClosing || this.freeSlots.length < SLOTS) return;
    this.payOwed();
    this.inner.close();
  }

  private onClosed(error: Error | undefined): void {
    this.closed = true;
    this.failure = error;
    letHelperGo();
    clearTimeout(this.linger);
    for (const [slot, held] of this.slots.entries())
      if (held !== undefined) this.release(slot, error ?? closedError(this.remote));
    this.sink?.closed(error);
  }
}

function head(type: number, slot: number, length: number, address: bigint, generation: bigint): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, type);
  view.setUint16(2, slot, true);
  view.setUint32(4, length, true);
  view.setBigUint64(8, address, true);
  view.setBigUint64(16, generation, true);
  return bytes;
}

function isGuard(seen: Buffer, nonce: Buffer, generation: bigint): boolean {
  return seen.subarray(0, NONCE_BYTES).equals(nonce) && seen.readBigUInt64LE(NONCE_BYTES) === generation;
}
