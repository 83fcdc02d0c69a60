/** @file The seam between `run.ts` and its suites: what a suite gets, gives, and how rows are made of rounds. */
import { median } from './measure.ts';

/** One line of the table. */
export interface Row {
  /** What was measured. */
  readonly name: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  /** Who ours is compared with. */
  readonly against: string;
  readonly ours: number;
  readonly peer: number;
  /** Ours / peer; the median over the rounds where there are rounds. */
  readonly ratio: number;
}

/** What a suite is run with. */
export interface SuiteContext {
  /** Fewer rounds. */
  readonly quick: boolean;
  /** Says where time goes also where a quick run does not. */
  readonly profile: boolean;
  /** A Python that has torch, or undefined: leave PyTorch out and say so with `log`. */
  readonly torchPython: string | undefined;
  /** Prints a line beside the table. */
  log(line: string): void;
}

/** A module `suites/<name>.ts` exports these. */
export interface Suite {
  readonly name: string;
  run(context: SuiteContext): Promise<readonly Row[]>;
}

/** A row of values that were taken in turns: `ours[i]` and `peer[i]` are of the same round. */
export function rowOf(
  about: Pick<Row, 'name' | 'unit' | 'better' | 'against'>,
  ours: readonly number[],
  peer: readonly number[],
): Row {
  const ratio = median(ours.map((value, round) => value / (peer[round] ?? Number.NaN)));
  return { ...about, ours: median(ours), peer: median(peer), ratio };
}
