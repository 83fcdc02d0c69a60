/** @file Writes frames one after the other into slabs, and hands out what one tick wrote as one write. */
import { ByteWriter } from '../bytes/byte-writer.ts';
import { WireError, checkLimit } from '../errors.ts';
import {
  BASE_HEADER_BYTES,
  CALL_HEADER_BYTES,
  FrameKind,
  ID_HEADER_BYTES,
  headerBytes,
  writeBase,
  writeCallFields,
  writeCallCounts,
  writeCallLengths,
  writeIdFields,
  writeSequence,
} from './header.ts';
import { type HeaderEntry, writeHeaderTable } from './header-table.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';
import { type Slab, SlabPool } from './slab.ts';
import { type OutgoingBody, type TensorPlan, writeTensorPlan } from '../tensor/table.ts';

/** Where a frame lies: valid until the writer's next frame. Who needs it past the current tick copies it and retains the slab. */
export interface FrameRegion {
  readonly slab: Slab;
  readonly start: number;
  readonly end: number;
}

/** One object for all frames of a writer: a new one for each call is a tenth of what a caller allocates. */
interface Written {
  slab: Slab;
  start: number;
  end: number;
  bodies: readonly OutgoingBody[];
}

/** A call frame and the storages that follow it out of band. */
export interface CallRegion extends FrameRegion {
  /** In the order of their storage index; each must be released exactly once. */
  readonly bodies: readonly OutgoingBody[];
}

/** The fixed fields of a call frame. Callers may reuse one object. */
export interface CallFields {
  kind: FrameKind;
  flags: number;
  messageType: number;
  seq: number;
  ack: number;
  callId: number;
  /** Interned function id, 0 = none. */
  fn: number;
  /** Milliseconds left, rounded up to whole ones; -1 = no deadline. */
  remainingMs: number;
}

/** What an id frame says; see `FrameKind`. */
interface IdFields {
  id: number;
  /** @default 0 */
  a?: number;
  /** @default 0 */
  b?: number;
  /** @default 0 */
  c?: number;
}

/** One write: the chunks in order. `release` must be called once the last byte is with the kernel, or never will be. */
export interface PendingWrite {
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
  release(): void;
}

/** Room a slab must still have for a new frame to start in it. */
const MIN_ROOM = 512;
/** Frames longer than this grow by a quarter at a time instead of doubling. */
const LARGE_FRAME = 4 * 1024 * 1024;
/** Writers reserve for the worst case of a field, which may be this much more than they then use. */
const LIMIT_SLACK = 256 * 1024;
const NO_BODIES: readonly OutgoingBody[] = Object.freeze([]);

/**
 * One per connection or session. A call frame is written in three steps: `begin`, the value through `out`, `endCall`; while it is open
 * no other frame can be started. The other kinds are one call each.
 */
export class FrameWriter {
  /** The payload of the open frame goes here. */
  readonly out: ByteWriter;
  private readonly slabs: SlabPool;
  private readonly limits: WireLimits;
  private slab: Slab;
  /** First byte of `slab` that is in no chunk yet. */
  private unflushed = 0;
  private opened = false;
  /** A frame was written since `rest` was asked last. */
  private busy = false;
  private chunks: Uint8Array[] = [];
  private held: Slab[] = [];
  private chunkBytes = 0;
  private readonly region: Written;

  constructor(slabs: SlabPool = new SlabPool(), limits: WireLimits = DEFAULT_WIRE_LIMITS) {
    this.slabs = slabs;
    this.limits = limits;
    this.slab = slabs.none;
    this.slab.retain();
    this.region = { slab: this.slab, start: 0, end: 0, bodies: NO_BODIES };
    this.out = new ByteWriter(this.slab.bytes, (_writer, count) => this.moveFrame(count));
  }

  /** Whether a frame is being written. */
  get open(): boolean {
    return this.opened;
  }

  /** Bytes written and not yet taken by `flush`. */
  get pendingBytes(): number {
    return this.chunkBytes + this.slab.used - this.unflushed;
  }

  /** Starts a frame of a call kind; its value goes to `out`. */
  begin(): void {
    this.start(CALL_HEADER_BYTES);
  }

  /** Drops the open frame: encoding its value failed. */
  abort(): void {
    this.opened = false;
    this.out.pos = this.out.start;
  }

  /**
   * Completes the frame that `begin` started.
   * @param name defines `fields.fn` at the receiver, when given.
   * @throws WireError 'limit' when a section is too long; the frame is dropped and the plan's tensors stay the caller's to release.
   */
  endCall(
    fields: Readonly<CallFields>,
    name?: string,
    table?: readonly HeaderEntry[],
    tensors?: TensorPlan,
  ): CallRegion {
    const out = this.out;
    let nameLength = 0;
    let tableLength = 0;
    let descriptorLength = 0;
    let inlineLength = 0;
    let bodies = NO_BODIES;
    try {
      if (name !== undefined) {
        nameLength = utf8(out, name);
        checkLimit('function name', nameLength, this.limits.maxNameBytes);
      }
      if (table !== undefined && table.length > 0) tableLength = writeHeaderTable(out, table, this.limits);
      if (tensors !== undefined) {
        const written = writeTensorPlan(out, tensors, this.limits);
        descriptorLength = written.descriptorLength;
        inlineLength = written.inlineLength;
        bodies = written.bodies;
      }
      checkLimit('frame', out.pos - out.start - CALL_HEADER_BYTES, this.limits.maxFrameBytes);
    } catch (error) {
      this.abort();
      throw error;
    }
    const { view, start } = out;
    writeBase(view, start, fields.kind, fields.flags, fields.messageType, out.pos - start - CALL_HEADER_BYTES);
    writeSequence(view, start, fields.seq, fields.ack);
    writeCallFields(view, start, fields.callId, fields.fn, fields.remainingMs);
    writeCallLengths(view, start, tableLength, descriptorLength, inlineLength);
    writeCallCounts(view, start, tensors?.tensorCount ?? 0, nameLength);
    return this.written(start, bodies);
  }

  /** A frame with the short header: HANDSHAKE, CONTROL, RESUME, ACK. */
  frame(
    kind: FrameKind,
    messageType: number,
    payload: Uint8Array | undefined,
    seq: number,
    ack: number,
    flags = 0,
  ): FrameRegion {
    const length = payload?.length ?? 0;
    checkLimit(
      'frame',
      length,
      kind === FrameKind.HANDSHAKE ? this.limits.maxHandshakeBytes : this.limits.maxControlBytes,
    );
    if (headerBytes(kind) !== BASE_HEADER_BYTES)
      throw new WireError('protocol-error', `frame kind ${kind} has another header`);
    this.start(BASE_HEADER_BYTES);
    if (payload !== undefined) this.out.raw(payload);
    const start = this.out.start;
    writeBase(this.out.view, start, kind, flags, messageType, length);
    writeSequence(this.out.view, start, seq, ack);
    return this.written(start, NO_BODIES);
  }

  /** A frame with the id header and no payload: CANCEL, CREDIT, BODY_ACK, BODY_LOST, PING, PONG. */
  idFrame(kind: FrameKind, { id, a = 0, b = 0, c = 0 }: Readonly<IdFields>, seq: number, ack: number): FrameRegion {
    if (headerBytes(kind) !== ID_HEADER_BYTES)
      throw new WireError('protocol-error', `frame kind ${kind} has another header`);
    this.start(ID_HEADER_BYTES);
    const start = this.out.start;
    writeBase(this.out.view, start, kind, 0, 0, 0);
    writeSequence(this.out.view, start, seq, ack);
    writeIdFields(this.out.view, start, id, a, b, c);
    return this.written(start, NO_BODIES);
  }

  /**
   * A piece of a storage: the header goes into the slab, `bytes` is written from where it lies and must stay unchanged until the
   * write is released.
   */
  body(messageSeq: number, storage: number, offset: number, bytes: Uint8Array, ack: number, flags = 0): void {
    checkLimit('body chunk', bytes.length, this.limits.maxBodyChunkBytes);
    this.start(ID_HEADER_BYTES);
    const start = this.out.start;
    writeBase(this.out.view, start, FrameKind.BODY, flags, 0, bytes.length);
    writeSequence(this.out.view, start, 0, ack);
    writeIdFields(this.out.view, start, messageSeq, storage, 0, offset);
    this.finish();
    this.cut();
    this.chunks.push(bytes);
    this.chunkBytes += bytes.length;
  }

  /** Queues a frame that was written before, for a replay; patch its fields first. */
  repeat(region: FrameRegion): void {
    if (this.opened) throw new Error('invariant: a frame is open');
    this.cut();
    this.addChunk(region.slab, region.start, region.end);
  }

  /** Leaves what was written to those that retained its slab: it is in no write of this writer. */
  forget(): void {
    if (this.opened) throw new Error('invariant: a frame is open');
    this.unflushed = this.slab.used;
    if (this.chunks.length === 0) return;
    this.chunks = [];
    this.chunkBytes = 0;
    releaseAll(this.held);
  }

  /** Everything written since the last call, as one write; undefined when there is nothing. */
  flush(): PendingWrite | undefined {
    if (this.opened) throw new Error('invariant: a frame is open');
    this.cut();
    if (this.chunks.length === 0) return undefined;
    const { chunks, held, chunkBytes: bytes } = this;
    this.chunks = [];
    this.held = [];
    this.chunkBytes = 0;
    return { chunks, bytes, release: () => releaseAll(held) };
  }

  /** Called from time to time: gives back the memory of a writer that wrote nothing since the last time and has all flushed. */
  rest(): void {
    const { busy, opened, slab, slabs } = this;
    this.busy = false;
    if (busy || opened || slab === slabs.none || this.chunks.length > 0 || slab.used > this.unflushed) return;
    slab.release();
    this.slab = slabs.none;
    this.slab.retain();
    this.unflushed = 0;
    this.region.slab = this.slab;
    this.out.adopt(this.slab.bytes, this.slab.view, 0, 0);
  }

  /** Gives back the current slab and what was not flushed. The writer cannot be used afterwards. */
  dispose(): void {
    this.slab.release();
    releaseAll(this.held);
    this.chunks = [];
  }

  private start(header: number): void {
    if (this.opened) throw new Error('invariant: a frame is open');
    if (this.slab.bytes.length - this.slab.used < MIN_ROOM) this.rotate(MIN_ROOM);
    const { slab, out } = this;
    if (out.bytes !== slab.bytes) out.adopt(slab.bytes, slab.view, slab.used, slab.used);
    out.start = slab.used;
    out.pos = slab.used + header;
    this.opened = true;
    this.busy = true;
  }

  private written(start: number, bodies: readonly OutgoingBody[]): CallRegion {
    const { region } = this;
    region.start = start;
    region.end = this.finish();
    region.slab = this.slab;
    region.bodies = bodies;
    return region;
  }

  private finish(): number {
    this.opened = false;
    return (this.slab.used = this.out.pos);
  }

  /** Turns what the current slab holds unflushed into a chunk. */
  private cut(): void {
    if (this.slab.used > this.unflushed) this.addChunk(this.slab, this.unflushed, this.slab.used);
    this.unflushed = this.slab.used;
  }

  private addChunk(slab: Slab, start: number, end: number): void {
    if (this.held[this.held.length - 1] !== slab) {
      slab.retain();
      this.held.push(slab);
    }
    this.chunks.push(slab.bytes.subarray(start, end));
    this.chunkBytes += end - start;
  }

  private rotate(room: number): void {
    this.cut();
    const first = this.slab === this.slabs.none;
    this.slab.release();
    this.slab = first ? this.slabs.takeFirst(room) : this.slabs.take(room);
    this.unflushed = 0;
  }

  /** The open frame does not fit: it goes to the front of another slab. */
  private moveFrame(count: number): void {
    const { bytes, start, pos } = this.out;
    const length = pos - start;
    const needed = length + count;
    // Here and not only at the end: a value that is far too large must not be written out first.
    checkLimit('frame', needed - CALL_HEADER_BYTES, this.limits.maxFrameBytes + LIMIT_SLACK);
    const old = this.slab;
    old.retain();
    this.rotate(needed > LARGE_FRAME ? Math.ceil(needed * 1.25) : needed * 2);
    this.slab.bytes.set(bytes.subarray(start, pos));
    this.out.adopt(this.slab.bytes, this.slab.view, 0, length);
    old.release();
  }
}

function releaseAll(slabs: Slab[]): void {
  for (const slab of slabs.splice(0)) slab.release();
}

/** The UTF-8 of `text` without a length; returns its size. */
function utf8(out: ByteWriter, text: string): number {
  const bytes = encoder.encode(text);
  out.raw(bytes);
  return bytes.length;
}

const encoder = new TextEncoder();
