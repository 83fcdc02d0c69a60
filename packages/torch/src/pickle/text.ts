/** @file Text of pickles: UTF-8 as Python writes it, which has bytes for lone surrogates, too. */
import { WireError, type ByteReader } from '@backwire/wire/internal';
import { refuse } from './refusal.ts';

const encoder = new TextEncoder();
/** Up to this many UTF-16 units a loop beats the call into the encoder. */
const LOOP_CHARS = 64;

/** Reads `length` bytes of UTF-8, with lone surrogates as CPython's 'surrogatepass' writes them. */
export function readText(input: ByteReader, length: number): string {
  const from = input.pos;
  try {
    return input.utf8(length);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    input.pos = from + length;
    return withSurrogates(input.bytes, from, from + length);
  }
}

/** Reads `length` bytes as text where they are UTF-8, else as they are: TorchScript's strings are bytes. */
export function readScriptString(input: ByteReader, length: number): string | Uint8Array {
  const from = input.pos;
  const first = input.bytes[from] as number;
  // A pickle inside of a pickle begins with 0x80, which no text does: the decoder is spared.
  if (length > 0 && first >= 0x80 && first < 0xc2) return input.copy(length);
  try {
    return input.utf8(length);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    input.pos = from;
    return input.copy(length);
  }
}

function withSurrogates(bytes: Uint8Array, from: number, end: number): string {
  let text = '';
  let start = from;
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const upTo = (to: number): string => {
    try {
      return decoder.decode(bytes.subarray(start, to));
    } catch (cause) {
      throw refuse('text in a pickle is not UTF-8', cause);
    }
  };
  for (let i = from; i + 2 < end; i++) {
    const second = bytes[i + 1] as number;
    // 0xed 0xa0 … 0xbf: a surrogate in three bytes.
    if (bytes[i] !== 0xed || second < 0xa0) continue;
    text += upTo(i);
    text += String.fromCharCode(0xd000 | ((second & 0x3f) << 6) | ((bytes[i + 2] as number) & 0x3f));
    start = i + 3;
    i += 2;
  }
  return text + upTo(end);
}

/** UTF-8 of a string, with lone surrogates as CPython's 'surrogatepass' writes them. */
export function encodeText(value: string): Uint8Array {
  if (value.length <= LOOP_CHARS) {
    const bytes = asciiOf(value);
    if (bytes !== undefined) return bytes;
  }
  if ((value as string & { isWellFormed(): boolean }).isWellFormed()) return encoder.encode(value);
  const out: number[] = [];
  for (const character of value) {
    const code = character.codePointAt(0) as number;
    if (code >= 0xd800 && code <= 0xdfff)
      out.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f));
    else out.push(...encoder.encode(character));
  }
  return Uint8Array.from(out);
}

function asciiOf(value: string): Uint8Array | undefined {
  const bytes = new Uint8Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0x7f) return undefined;
    bytes[i] = code;
  }
  return bytes;
}
