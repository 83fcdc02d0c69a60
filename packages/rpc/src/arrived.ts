/** @file A frame of a call kind as it lies in the read buffer, or out of it when it has to wait. */
import {
  readTensorTable,
  valueEnd,
  type FrameHeader,
  type FrameKind,
  type IncomingTensors,
  type WireLimits,
} from '@backwire/wire/internal';

/** A frame of a call kind, out of the read buffer when it has to wait. */
export interface Arrived {
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
  header: FrameHeader,
  bytes: Uint8Array,
  end: number,
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

/** What arrived, where it lies: valid only until the frame's callback returns. */
export function view(
  header: FrameHeader,
  bytes: Uint8Array,
  start: number,
  end: number,
  tensors: IncomingTensors | undefined,
  done: readonly (() => void)[],
): Arrived {
  return {
    kind: header.kind,
    flags: header.flags,
    messageType: header.messageType,
    id: header.id,
    seq: header.seq,
    fn: header.fn,
    remainingMs: header.remainingMs,
    bytes,
    start,
    end: valueEnd(header, end),
    tensors,
    done,
  };
}
