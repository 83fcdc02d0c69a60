/** @file How an inspector and an agent talk: whole JSON texts, each after its length. */
import { RpcError } from '../base/errors.ts';
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
export class JsonSink implements ByteSink {
  private readonly maxBytes: number;
  private readonly onText: (value: unknown) => void;
  private readonly onClosed: (error?: Error) => void;
  private buffer: Uint8Array = new Uint8Array(HEAD_BYTES);
  private filled = 0;
  private inHead = true;

  constructor(maxBytes: number, onText: (value: unknown) => void, onClosed: (error?: Error) => void) {
    this.maxBytes = maxBytes;
    this.onText = onText;
    this.onClosed = onClosed;
  }

  nextBuffer(): Uint8Array {
    return this.buffer.subarray(this.filled);
  }

  received(count: number): void {
    this.filled += count;
    if (this.filled < this.buffer.length) return;
    const whole = this.buffer;
    if (this.inHead) {
      const length = new DataView(whole.buffer).getUint32(0, true);
      if (length === 0 || length > this.maxBytes) {
        throw new RpcError('protocol-error', `a text of ${length} bytes, where 1 to ${this.maxBytes} are allowed`);
      }
      this.expect(length, false);
      return;
    }
    this.expect(HEAD_BYTES, true);
    let value: unknown;
    try {
      value = JSON.parse(decoder.decode(whole));
    } catch (cause) {
      throw new RpcError('protocol-error', 'a text that is not JSON', { cause });
    }
    this.onText(value);
  }

  closed(error?: Error): void {
    this.onClosed(error);
  }

  private expect(bytes: number, head: boolean): void {
    this.buffer = new Uint8Array(bytes);
    this.filled = 0;
    this.inHead = head;
  }
}
