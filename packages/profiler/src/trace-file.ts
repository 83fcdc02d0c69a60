/** @file Traces as files, written in pieces: the text of a million events is longer than a string may be. */
import { RpcError } from '@backwire/rpc';
import { show } from '@backwire/rpc/internal';
import type { ChromeTrace } from './chrome-trace.ts';
import { MIN_PIECE_CHARS } from './limits.ts';

/**
 * Writes a trace as the JSON file that ui.perfetto.dev and chrome://tracing open: what `mergeChromeTraces` or `toChromeTrace` gave. It may be
 * of any length, where `JSON.stringify` ends at the longest string, half a gigabyte.
 * @param path where, also as a URL `file:`; a file that is there is replaced
 * @param trace what is written
 * @throws RpcError 'failed-precondition' where there is no file system; TypeError for what is no path and no trace; what `node:fs` throws when the file cannot be written.
 * @example
 * ```ts
 * const { profile: first } = await profiler.profile(() => ones([2]).add(1));
 * const { profile: second } = await profiler.profile(() => ones([2]).mul(2));
 * const merged = profiler.mergeChromeTraces([first.toChromeTrace(), second.toChromeTrace()]);
 * // await profiler.writeChromeTrace('trace.json', merged);
 * console.log(merged.traceEvents.length > 2); // true
 * ```
 */
export async function writeChromeTrace(path: string | URL, trace: ChromeTrace): Promise<void> {
  if (!(path instanceof URL) && (typeof path !== 'string' || path === ''))
    throw new TypeError(`writeChromeTrace() takes the path of a file, got ${show(path)}`);
  // Before the file is opened, which ends what it held.
  checkTrace(trace);
  const fs = globalThis.process?.getBuiltinModule?.('node:fs/promises');
  if (fs === undefined)
    throw new RpcError(
      'failed-precondition',
      `cannot write '${path}': there is no file system here; use toChromeTrace()`,
    );
  await fs.writeFile(path, traceText(trace));
}

function checkTrace(trace: unknown): void {
  const { traceEvents, toChromeTrace } = (trace ?? {}) as { traceEvents?: unknown; toChromeTrace?: unknown };
  if (Array.isArray(traceEvents)) return;
  const what = typeof toChromeTrace === 'function' ? 'a profile: give its toChromeTrace()' : show(trace);
  throw new TypeError(`writeChromeTrace() takes a trace, as toChromeTrace() makes it; got ${what}`);
}

/** The same text as `JSON.stringify(trace)`, in pieces. */
export function* traceText({ traceEvents, ...rest }: ChromeTrace): Generator<string> {
  let piece = '{"traceEvents":[';
  for (const [index, event] of traceEvents.entries()) {
    piece += `${index === 0 ? '' : ','}${JSON.stringify(event)}`;
    if (piece.length < MIN_PIECE_CHARS) continue;
    yield piece;
    piece = '';
  }
  // The other fields as JSON.stringify has them: ',…}' after the list, or '}' alone when there are none.
  const others = JSON.stringify(rest).slice(1);
  yield `${piece}]${others === '}' ? '' : ','}${others}`;
}
