/**
 * @file The header table of a call frame: what extensions must process at delivery, whatever becomes of the call (forks, autograd ids).
 * Protobuf wire format of `HeaderTable`.
 */
import { ByteReader, WireType } from '../bytes/byte-reader.ts';
import { type ByteWriter } from '../bytes/byte-writer.ts';
import { checkLimit, decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';

/** One entry; `extension` says who understands `data`. */
export interface HeaderEntry {
  readonly extension: string;
  readonly data: Uint8Array;
}

const ENTRY = (1 << 3) | WireType.LENGTH;
const EXTENSION = (1 << 3) | WireType.LENGTH;
const DATA = (2 << 3) | WireType.LENGTH;

/** Writes the table; returns its length in bytes. */
export function writeHeaderTable(
  out: ByteWriter,
  entries: readonly HeaderEntry[],
  limits: WireLimits = DEFAULT_WIRE_LIMITS,
): number {
  checkLimit('header entries', entries.length, limits.maxHeaderEntries);
  const before = out.pos - out.start;
  for (const entry of entries) {
    out.u8(ENTRY);
    const mark = out.beginLength();
    out.u8(EXTENSION);
    out.string(entry.extension);
    out.u8(DATA);
    out.varint32(entry.data.length);
    out.raw(entry.data);
    out.endLength(mark);
  }
  const length = out.pos - out.start - before;
  checkLimit('header table', length, limits.maxHeaderTableBytes);
  return length;
}

/** Reads a table. `data` is a copy: entries outlive the frame. Throws `decode-error` or `limit`. */
export function readHeaderTable(bytes: Uint8Array, limits: WireLimits = DEFAULT_WIRE_LIMITS): HeaderEntry[] {
  const reader = new ByteReader(bytes);
  const entries: HeaderEntry[] = [];
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag !== ENTRY) {
      reader.skip(tag & 7);
      continue;
    }
    checkLimit('header entries', entries.length + 1, limits.maxHeaderEntries);
    entries.push(readEntry(new ByteReader(reader.view8()), limits));
  }
  return entries;
}

function readEntry(reader: ByteReader, limits: WireLimits): HeaderEntry {
  let extension: string | undefined;
  let data: Uint8Array | undefined;
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === EXTENSION) {
      const length = reader.length();
      checkLimit('extension name', length, limits.maxNameBytes);
      extension = reader.utf8(length);
    } else if (tag === DATA) data = reader.copy8();
    else reader.skip(tag & 7);
  }
  if (extension === undefined) throw decodeError('a header entry without an extension');
  return { extension, data: data ?? new Uint8Array(0) };
}
