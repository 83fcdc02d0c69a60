/** @file How an inspector and an agent talk: whole JSON texts, each after its length. */
import { RpcError } from '../base/errors.ts';
import { ByteReader, type ReadProgram } from '../stores/byte-reader.ts';
import type { ByteSink, Connection } from '../transports/transport.ts';

const HEAD_BYTES = 4;
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

/** `u32 length (little-endian) ‖ JSON`. */
export function sendJson(connection: Connection, value: unknown): void {
  const text = encoder.encode(JSON.stringify(value));
  const head = new Uint8Array(HEAD_BYTES);
  new DataView(head.buffer).setUint32(0, text.length, true);
  connection.write([head, text]);
}

/** Takes JSON texts off a connection, up to `maxBytes` each. What breaks the rules breaks the connection, and nothing else. */
export function jsonSink(
  maxBytes: number,
  onText: (value: unknown) => void,
  onClosed: (error?: Error) => void,
): ByteSink {
  return new ByteReader(jsonTexts(maxBytes, onText), onClosed);
}

function* jsonTexts(maxBytes: number, onText: (value: unknown) => void): ReadProgram {
  for (;;) {
    const { buffer, byteOffset } = yield HEAD_BYTES;
    const length = new DataView(buffer, byteOffset).getUint32(0, true);
    if (length === 0 || length > maxBytes)
      throw new RpcError('protocol-error', `a text of ${length} bytes, where 1 to ${maxBytes} are allowed`);
    const text = yield length;
    let value: unknown;
    try {
      value = JSON.parse(decoder.decode(text));
    } catch (cause) {
      throw new RpcError('protocol-error', 'a text that is not JSON', { cause });
    }
    onText(value);
  }
}
