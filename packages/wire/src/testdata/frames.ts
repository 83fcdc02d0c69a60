/** @file What tests of frames share: a sink that keeps what arrives, a call's header, readers and what writers wrote. */
import {
  type CallFields,
  DEFAULT_WIRE_LIMITS,
  FrameHeader,
  FrameKind,
  FrameReader,
  type FrameSink,
  type FrameWriter,
} from '../internal.ts';

/** A frame that arrived. */
export interface Seen {
  header: FrameHeader;
  payload: Uint8Array;
}

/** Keeps everything that arrives; bodies land in memory of their own. */
export class Recorder implements FrameSink {
  readonly frames: Seen[] = [];
  readonly bodies: { header: FrameHeader; bytes: Uint8Array; landed: number }[] = [];
  private target: Uint8Array | undefined;
  discard = false;

  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    this.frames.push({ header: Object.assign(new FrameHeader(), header), payload: bytes.slice(start, end) });
  }
  body(header: FrameHeader): Uint8Array | undefined {
    this.target = this.discard ? undefined : new Uint8Array(header.length);
    return this.target;
  }
  bodyEnd(header: FrameHeader, landed: number): void {
    this.bodies.push({ header: Object.assign(new FrameHeader(), header), bytes: this.target as Uint8Array, landed });
  }
}

/** The header fields of a call. */
export function call(overrides: Partial<CallFields> = {}): CallFields {
  return {
    kind: FrameKind.CALL,
    flags: 0,
    messageType: 0x102,
    seq: 1,
    ack: 0,
    callId: 7,
    fn: 3,
    remainingMs: -1,
    ...overrides,
  };
}

/** All that was written, in one piece; it is as long as the writer says, before and in the write. */
export function joined(writer: FrameWriter): Uint8Array {
  const pending = writer.pendingBytes;
  const write = writer.flush();
  const bytes = Buffer.concat(write?.chunks ?? []);
  const told = [pending, write?.bytes ?? 0, writer.pendingBytes].join();
  if (told !== [bytes.length, bytes.length, 0].join()) throw new Error(`${told} for ${bytes.length} bytes`);
  write?.release();
  return bytes;
}

/** A reader after the handshake. */
export function open(sink: FrameSink, limits = DEFAULT_WIRE_LIMITS, slab?: number): FrameReader {
  const reader = new FrameReader(sink, limits, slab);
  reader.phase = 'open';
  return reader;
}
