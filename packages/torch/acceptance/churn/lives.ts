/** @file Whom calls went to while workers came, went and died: a call may fail only if its callee was coming or going at that time. */

/** One stay of a worker in its group. Times are milliseconds since the epoch. */
export interface Life {
  readonly name: string;
  /** It begins to join. */
  readonly born: number;
  /** It has joined; Infinity for one that was killed before. */
  readonly here: number;
  /** It begins to leave, or is killed: from here on calls to it may fail, */
  readonly going: number;
  /** up to here, where it has left, or was put out: nobody may call it any more. */
  readonly gone: number;
  readonly how: 'left' | 'killed';
}

/** One call, from the look at who is in the group to its answer. */
export interface Call {
  readonly callee: string;
  readonly start: number;
  readonly end: number;
  /** What it failed with; null for an answer. */
  readonly error: string | null;
}

/** The error of a call that was answered with something else than what it asked for: no leaving explains that. */
export const WRONG = 'a wrong answer';

/**
 * What torch says of a worker whose name it has, and no address yet: it lists a worker that joins before it has asked the store where that
 * one is, and the call goes nowhere.
 */
const NO_ADDRESS = /could not find destination url for name/;

/** What became of calls. */
export interface Fates {
  readonly calls: number;
  readonly answered: number;
  /** Those that failed since torch had no address of a callee that was joining, */
  readonly joining: number;
  /** or while their callee left, */
  readonly leaving: number;
  /** or after it was killed, */
  readonly killed: number;
  /** or without a reason. */
  readonly unexplained: readonly Call[];
}

/** Judges calls by the lives of those whom they went to. */
export function fates(calls: readonly Call[], lives: readonly Life[]): Fates {
  const unexplained: Call[] = [];
  const count = { answered: 0, joining: 0, left: 0, killed: 0 };
  for (const call of calls) {
    const cause = call.error === null ? 'answered' : causeOf(call, lives);
    if (cause === undefined) unexplained.push(call);
    else count[cause]++;
  }
  const { answered, joining, left, killed } = count;
  return { calls: calls.length, answered, joining, leaving: left, killed, unexplained };
}

function causeOf({ callee, start, end, error }: Call, lives: readonly Life[]): 'joining' | Life['how'] | undefined {
  if (error === WRONG) return undefined;
  const own = lives.filter(({ name }) => name === callee);
  const going = own.findLast((life) => start <= life.gone && end >= life.going);
  if (going !== undefined) return going.how;
  const joins = own.some(({ born, here }) => start <= here && end >= born);
  return joins && NO_ADDRESS.test(error ?? '') ? 'joining' : undefined;
}

/** A call that failed without a reason, with what its callee did around then. */
export function explain({ callee, start, end, error }: Call, lives: readonly Life[]): string {
  const since = (time: number): string => `${Math.round(time - start)} ms`;
  const around = lives
    .filter(({ name, born }) => name === callee && born <= end)
    .slice(-2)
    .map(
      ({ born, here, going, gone, how }) =>
        `born at ${since(born)}, here at ${since(here)}, ${how} from ${since(going)} to ${since(gone)}`,
    );
  return `a call to '${callee}' failed after ${since(end)} (${error ?? ''}); it was ${around.join('; ') || 'not there'}`;
}
