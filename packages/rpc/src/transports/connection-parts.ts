/** @file What transports do alike: how connections say that they are closed, how bytes get to sinks, how listeners end. Runs in browsers too. */
import { InvariantError } from '../base/errors.ts';
import { MAX_HALF_OPEN } from '../security/handshake.ts';
import type { ByteSink, Listener } from './transport.ts';

/** Takes bytes and forgets them. */
export const DISCARD: ByteSink = Object.freeze({
  nextBuffer: (): Uint8Array => discarded,
  received: (): void => undefined,
  closed: (): void => undefined,
});
const discarded = new Uint8Array(16 * 1024);

/** Why what was written to a connection that is closed does not leave any more. */
export function closedError(remote: string): Error {
  return Object.assign(new Error(`the connection to ${remote} is closed`), { code: 'ECONNRESET' });
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The sink's memory for the next bytes. @throws InvariantError when it has none. */
export function memoryOf(sink: ByteSink): Uint8Array {
  const memory = sink.nextBuffer();
  if (memory.byteLength === 0) throw new InvariantError('a sink offered no memory');
  return memory;
}

/** A listener that `stop` ends: by `close`, or with `signal`. */
export function listenerAt(endpoint: string, signal: AbortSignal | undefined, stop: () => void): Listener {
  const close = async (): Promise<void> => stop();
  signal?.addEventListener('abort', () => void close(), { once: true });
  return { endpoint, close };
}

/** One more that has proved nothing yet; more than allowed cost the oldest its connection. */
export function admitStranger<T extends { destroy(): unknown }>(strangers: Set<T>, stranger: T): void {
  strangers.add(stranger);
  if (strangers.size <= MAX_HALF_OPEN) return;
  const [oldest] = strangers;
  if (oldest === undefined) return;
  strangers.delete(oldest);
  oldest.destroy();
}

/** Copies into the sink's memory what fits of `bytes` from `from` to `to`; how much that was, which the sink is not told of yet. */
export function copyTo(sink: ByteSink, bytes: Uint8Array, from: number, to: number): number {
  const memory = memoryOf(sink);
  const count = Math.min(memory.byteLength, to - from);
  memory.set(bytes.subarray(from, from + count));
  return count;
}
