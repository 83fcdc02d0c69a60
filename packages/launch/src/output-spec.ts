/** @file torchrun's notation for streams of workers: '3', or '0:1,1:2'. */
import { UsageError } from './errors.ts';

/** Which of a worker's two streams are meant. @public */
export interface Streams {
  readonly stdout: boolean;
  readonly stderr: boolean;
}

/** The streams meant for one local rank. */
export type StreamsOf = (localRank: number) => Streams;

/**
 * Reads '0' (none), '1' (stdout), '2' (stderr), '3' (both) for all workers, or 'RANK:N,...' for some of them.
 * @throws UsageError naming the flag and the text, or a rank that none of `processes` workers has.
 */
export function parseStreams(flag: string, text: string, processes: number): StreamsOf {
  if (!text.includes(':')) {
    const all = digit(flag, text, text);
    return () => all;
  }
  const byRank = new Map<number, Streams>();
  for (const part of text.split(',')) {
    const match = /^(\d+):(\d)$/.exec(part.trim());
    if (match === null) throw new UsageError(`flag --${flag}: '${text}' is neither 0, 1, 2, 3 nor RANK:N,...`);
    byRank.set(localRank(flag, Number(match[1]), processes), digit(flag, match[2] ?? '', text));
  }
  return (localRank) => byRank.get(localRank) ?? NONE;
}

/** @throws UsageError for one that no worker of this launcher has. */
export function localRank(flag: string, rank: number, processes: number): number {
  if (rank < processes) return rank;
  throw new UsageError(`flag --${flag}: no worker here has the local rank ${rank}; they have 0 to ${processes - 1}`);
}

const NONE: Streams = { stdout: false, stderr: false };

function digit(flag: string, text: string, whole: string): Streams {
  if (!/^[0-3]$/.test(text)) throw new UsageError(`flag --${flag}: '${whole}' is neither 0, 1, 2, 3 nor RANK:N,...`);
  const bits = Number(text);
  return { stdout: (bits & 1) !== 0, stderr: (bits & 2) !== 0 };
}
