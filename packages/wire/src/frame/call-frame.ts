/** @file Cuts the payload of a call frame into its sections: value, function name, header table, tensor table, inline storages. */
import { type BufferPool } from '../bytes/buffer-pool.ts';
import { ByteReader } from '../bytes/byte-reader.ts';
import { decodeError } from '../errors.ts';
import { type FrameHeader } from './header.ts';
import { type HeaderEntry, readHeaderTable } from './header-table.ts';
import { IncomingTensors } from '../tensor/incoming.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';
import { TableCache } from '../tensor/table-cache.ts';
import { checkTensorTable } from '../tensor/checks.ts';
import { type StorageDescriptor } from '../tensor/descriptor.ts';
import { readTensorTable } from '../tensor/table-codec.ts';

/** Where the value of a call frame ends: it is `bytes[start, valueEnd)` of what `FrameSink.frame` got. */
export function valueEnd(header: FrameHeader, end: number): number {
  return end - header.inlineLength - header.descriptorLength - header.tableLength - header.nameLength;
}

/** The name that a call frame gives to its function id; undefined when it gives none. */
export function frameName(header: FrameHeader, bytes: Uint8Array, end: number): string | undefined {
  if (header.nameLength === 0) return undefined;
  const reader = new ByteReader(bytes, valueEnd(header, end), end);
  return reader.utf8(header.nameLength);
}

/** The header table of a call frame. Throws 'decode-error' or 'limit'. */
export function frameTable(
  header: FrameHeader,
  bytes: Uint8Array,
  end: number,
  limits: WireLimits = DEFAULT_WIRE_LIMITS,
): readonly HeaderEntry[] {
  if (header.tableLength === 0) return NO_ENTRIES;
  const from = end - header.inlineLength - header.descriptorLength - header.tableLength;
  return readHeaderTable(bytes.subarray(from, from + header.tableLength), limits);
}

const NO_ENTRIES: readonly HeaderEntry[] = Object.freeze([]);

/**
 * The memory for a call frame's tensors, inline storages filled in; undefined when the frame has none. The caller owns it: `tensors()`
 * or `release()`.
 * @throws WireError 'decode-error' or 'limit', before any memory is taken.
 */
export function frameTensors(
  header: FrameHeader,
  bytes: Uint8Array,
  end: number,
  limits: WireLimits = DEFAULT_WIRE_LIMITS,
  pool?: BufferPool,
): IncomingTensors | undefined {
  if (header.descriptorLength === 0) {
    if (header.tensorCount !== 0 || header.inlineLength !== 0) throw decodeError('tensors without a tensor table');
    return undefined;
  }
  const inlineStart = end - header.inlineLength;
  const tableStart = inlineStart - header.descriptorLength;
  const known = tables.find(bytes, tableStart, inlineStart, limits);
  const table = known ?? readTensorTable(bytes, tableStart, inlineStart, limits);
  if (table.tensors.length !== header.tensorCount)
    throw decodeError(`a table of ${table.tensors.length} tensors instead of ${header.tensorCount}`);
  if (known === undefined) checkTensorTable(table, limits);
  const incoming = new IncomingTensors(table, bytes, inlineStart, end, pool);
  if (known === undefined && table.storages.every(isInline)) tables.keep(bytes, tableStart, inlineStart, limits, table);
  return incoming;
}

/** Those of small tensors: what a channel says of a storage is another thing each time. */
const tables = new TableCache();

function isInline({ placement }: StorageDescriptor): boolean {
  return placement === 'inline';
}
