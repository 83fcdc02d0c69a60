/** @file A frame of a call kind as it lies in the read buffer, or out of it when it has to wait. */
import {
  readTensorTable,
  valueEnd,
  type FrameHeader,
  FrameKind,
  type IncomingTensors,
  type WireLimits,
} from '@backwire/wire/internal';

/** A frame in the read buffer: valid only until its callback returns. */
export interface RawFrame {
  readonly header: FrameHeader;
  readonly bytes: Uint8Array;
  /** Where what follows the header begins, and where the frame ends. */
  readonly start: number;
  readonly end: number;
}

/** A frame of a call kind. Who gets one copies what it keeps: it is valid during the call, or for good where the message had to wait. */
export interface IncomingFrame {
  readonly kind: FrameKind;
  readonly flags: number;
  readonly messageType: number;
  /** The call. */
  readonly id: number;
  readonly seq: number;
  /** The interned name; 0 = none. */
  readonly fn: number;
  readonly remainingMs: number;
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  readonly tensors: IncomingTensors | undefined;
  /** To be called once its values are decoded, or never will be. */
  readonly done: readonly (() => void)[];
}

/** The out-of-band storages that a frame says will follow; none when it cannot be read. */
export function announcedBodies(
  { header, bytes, end }: RawFrame,
  limits: WireLimits,
): { storage: number; nbytes: number }[] {
  if (header.descriptorLength === 0) return [];
  const tableEnd = end - header.inlineLength;
  try {
    const { storages } = readTensorTable(bytes, tableEnd - header.descriptorLength, tableEnd, limits);
    return storages.flatMap(({ placement, nbytes }, storage) =>
      placement === 'inline' || nbytes === 0 ? [] : [{ storage, nbytes }],
    );
  } catch {
    return [];
  }
}

/** The same, to be filled again for the next frame: most frames are dealt with inside of their callback. */
export class IncomingFrameView implements IncomingFrame {
  kind: FrameKind = FrameKind.CALL;
  flags = 0;
  messageType = 0;
  id = 0;
  seq = 0;
  fn = 0;
  remainingMs = -1;
  bytes: Uint8Array = NO_BYTES;
  start = 0;
  end = 0;
  tensors: IncomingTensors | undefined;
  done: readonly (() => void)[] = NOTHING;
}

/** What arrived, where it lies: valid only until the frame's callback returns. */
export function view(
  into: IncomingFrameView,
  { header, bytes, start, end }: RawFrame,
  tensors: IncomingTensors | undefined,
  done: readonly (() => void)[],
): IncomingFrameView {
  into.kind = header.kind;
  into.flags = header.flags;
  into.messageType = header.messageType;
  into.id = header.id;
  into.seq = header.seq;
  into.fn = header.fn;
  into.remainingMs = header.remainingMs;
  into.bytes = bytes;
  into.start = start;
  into.end = valueEnd(header, end);
  into.tensors = tensors;
  into.done = done;
  return into;
}

const NO_BYTES = new Uint8Array(0);
const NOTHING: readonly (() => void)[] = Object.freeze([]);
