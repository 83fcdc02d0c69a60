/** @file Archives as torch keeps its files in: ZIP with nothing compressed (APPNOTE.TXT of PKWARE), read as views, written aligned. */
import { crc32 } from 'node:zlib';
import { checkLimit } from '@backwire/wire/internal';
import { quoted, refuse } from '../pickle/refusal.ts';

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const END_64 = 0x06064b50;
const END_64_LOCATOR = 0x07064b50;
const LOCAL_BYTES = 30;
const CENTRAL_BYTES = 46;
const END_BYTES = 22;
const END_64_BYTES = 56;
const LOCATOR_BYTES = 20;
const EXTRA_HEAD_BYTES = 4;
const MAX_COMMENT = 0xffff;
const FULL_16 = 0xffff;
const FULL_32 = 0xffff_ffff;
/** The field of an extra field that holds sizes and offsets of 64 bits. */
const EXTRA_64 = 0x0001;
/** The padding that torch puts before its records: 'FB'. */
const EXTRA_PADDING = 0x4246;
const UTF8_NAMES = 0x0800;
const DAMAGED = 'the archive is damaged';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** Whether `bytes` begin as an archive does. */
export function isZip(bytes: Uint8Array): boolean {
  return bytes.length >= 4 && viewOf(bytes).getUint32(0, true) === LOCAL;
}

function textOf(name: Uint8Array): string {
  try {
    return decoder.decode(name);
  } catch (cause) {
    throw refuse('the name of an entry of an archive is not UTF-8', cause);
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** What the central directory says of one entry. */
interface Entry {
  readonly name: string;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly nbytes: number;
  readonly offset: number;
}

/** An archive: its list of entries is read at once, their contents when they are asked for. */
export class ZipArchive {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly entries = new Map<string, Entry>();

  /** @throws WireError 'decode-error' or 'limit' for something that is no archive, is damaged, or has too many entries. */
  constructor(bytes: Uint8Array, maxEntries: number) {
    this.bytes = bytes;
    this.view = viewOf(bytes);
    const { count, start } = this.directory();
    checkLimit('entries of an archive', count, maxEntries);
    let at = start;
    for (let i = 0; i < count; i++) {
      const { entry, next } = this.entry(at);
      if (this.entries.has(entry.name)) throw refuse(`two entries ${quoted(entry.name)} in an archive`);
      this.entries.set(entry.name, entry);
      at = next;
    }
  }

  names(): string[] {
    return [...this.entries.keys()];
  }

  /**
   * A content, as a view of the archive; undefined where there is none of that name.
   * @throws WireError 'decode-error' for one that is damaged, by its checksum, too, or that is compressed or encrypted.
   */
  read(name: string): Uint8Array | undefined {
    const entry = this.entries.get(name);
    if (entry === undefined) return undefined;
    const { view } = this;
    const { flags, method, crc, nbytes, offset } = entry;
    if ((flags & 1) !== 0) throw refuse(`${quoted(name)} in an archive is encrypted`);
    if (method !== 0) throw refuse(`${quoted(name)} in an archive is compressed, which torch.save does not do`);
    this.need(offset, LOCAL_BYTES);
    if (view.getUint32(offset, true) !== LOCAL) throw refuse(DAMAGED);
    const start = offset + LOCAL_BYTES + view.getUint16(offset + 26, true) + view.getUint16(offset + 28, true);
    this.need(start, nbytes);
    const content = this.bytes.subarray(start, start + nbytes);
    if (crc32(content) !== crc) throw refuse(`the checksum of ${quoted(name)} does not fit: ${DAMAGED}`);
    return content;
  }

  private need(offset: number, count: number): void {
    if (offset + count > this.bytes.length) throw refuse(DAMAGED);
  }

  /** Where the list of entries is, and how long. */
  private directory(): { count: number; start: number } {
    const { view, bytes } = this;
    let end = bytes.length - END_BYTES;
    const lowest = Math.max(0, end - MAX_COMMENT);
    while (end >= lowest && view.getUint32(end, true) !== END) end--;
    if (end < lowest) throw refuse('no archive, or one that is cut off');
    const locator = end - LOCATOR_BYTES;
    if (locator >= 0 && view.getUint32(locator, true) === END_64_LOCATOR) {
      const at = this.long(locator + 8);
      this.need(at, END_64_BYTES);
      if (view.getUint32(at, true) !== END_64) throw refuse(DAMAGED);
      return { count: this.long(at + 32), start: this.long(at + 48) };
    }
    return { count: view.getUint16(end + 10, true), start: view.getUint32(end + 16, true) };
  }

  private entry(at: number): { entry: Entry; next: number } {
    const { view, bytes } = this;
    this.need(at, CENTRAL_BYTES);
    if (view.getUint32(at, true) !== CENTRAL) throw refuse(DAMAGED);
    const nameBytes = view.getUint16(at + 28, true);
    const extraBytes = view.getUint16(at + 30, true);
    const next = at + CENTRAL_BYTES + nameBytes + extraBytes + view.getUint16(at + 32, true);
    this.need(at, next - at);
    const name = textOf(bytes.subarray(at + CENTRAL_BYTES, at + CENTRAL_BYTES + nameBytes));
    const packed = view.getUint32(at + 20, true);
    const plain = { nbytes: view.getUint32(at + 24, true), offset: view.getUint32(at + 42, true) };
    const { nbytes, offset } = this.widened(plain, packed, at + CENTRAL_BYTES + nameBytes, extraBytes);
    const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
    return { entry: { name, flags, method, crc: view.getUint32(at + 16, true), nbytes, offset }, next };
  }

  /** Sizes and offsets that do not fit 32 bits stand in an extra field, in a fixed order. */
  private widened(
    plain: { nbytes: number; offset: number },
    packed: number,
    from: number,
    length: number,
  ): { nbytes: number; offset: number } {
    let { nbytes, offset } = plain;
    if (nbytes !== FULL_32 && offset !== FULL_32) return plain;
    for (let at = from; at + EXTRA_HEAD_BYTES <= from + length;) {
      const size = this.view.getUint16(at + 2, true);
      if (this.view.getUint16(at, true) === EXTRA_64) {
        let field = at + EXTRA_HEAD_BYTES;
        const next = (): number => this.long((field += 8) - 8);
        if (nbytes === FULL_32) nbytes = next();
        if (packed === FULL_32) next();
        if (offset === FULL_32) offset = next();
        return { nbytes, offset };
      }
      at += EXTRA_HEAD_BYTES + size;
    }
    throw refuse(DAMAGED);
  }

  private long(at: number): number {
    this.need(at, 8);
    const value = this.view.getBigUint64(at, true);
    if (value > BigInt(this.bytes.length)) throw refuse(DAMAGED);
    return Number(value);
  }
}

/**
 * An archive of `contents`, each beginning at a multiple of `alignment`.
 * @throws RangeError for one of 4 GiB or more, or of more than 65,534 entries.
 */
export function writeZip(contents: ReadonlyMap<string, Uint8Array>, alignment: number): Uint8Array {
  const entries: { name: Uint8Array; content: Uint8Array; crc: number; offset: number; padding: number }[] = [];
  let at = 0;
  let directoryBytes = 0;
  for (const [text, content] of contents) {
    const name = encoder.encode(text);
    const fixed = at + LOCAL_BYTES + name.length + EXTRA_HEAD_BYTES;
    const padding = (alignment - (fixed % alignment)) % alignment;
    entries.push({ name, content, crc: crc32(content), offset: at, padding });
    at = fixed + padding + content.length;
    directoryBytes += CENTRAL_BYTES + name.length;
  }
  const total = at + directoryBytes + END_BYTES;
  if (total >= FULL_32 || entries.length >= FULL_16)
    throw new RangeError(`a file of ${entries.length} records and ${total} bytes: it may have 65,534, and 4 GiB`);
  const bytes = new Uint8Array(total);
  const view = viewOf(bytes);
  let directory = at;
  for (const { name, content, crc, offset, padding } of entries) {
    view.setUint32(offset, LOCAL, true);
    entryFields(view, offset + 4, name.length, content.length, crc);
    view.setUint16(offset + 28, EXTRA_HEAD_BYTES + padding, true);
    bytes.set(name, offset + LOCAL_BYTES);
    const extra = offset + LOCAL_BYTES + name.length;
    view.setUint16(extra, EXTRA_PADDING, true);
    view.setUint16(extra + 2, padding, true);
    bytes.set(content, extra + EXTRA_HEAD_BYTES + padding);
    view.setUint32(directory, CENTRAL, true);
    entryFields(view, directory + 6, name.length, content.length, crc);
    view.setUint32(directory + 42, offset, true);
    bytes.set(name, directory + CENTRAL_BYTES);
    directory += CENTRAL_BYTES + name.length;
  }
  view.setUint32(directory, END, true);
  view.setUint16(directory + 8, entries.length, true);
  view.setUint16(directory + 10, entries.length, true);
  view.setUint32(directory + 12, directoryBytes, true);
  view.setUint32(directory + 16, at, true);
  return bytes;
}

/** The fields that the head of an entry and the directory have in common: flags, method, time, checksum, sizes, name. */
function entryFields(view: DataView, at: number, nameBytes: number, nbytes: number, crc: number): void {
  view.setUint16(at + 2, UTF8_NAMES, true);
  view.setUint32(at + 10, crc, true);
  view.setUint32(at + 14, nbytes, true);
  view.setUint32(at + 18, nbytes, true);
  view.setUint16(at + 22, nameBytes, true);
}
