/** @file What is said when a group fails: the first failure by time, and what became of the others. */
import { hostname } from 'node:os';
import { describeExit, type WorkerExit } from './worker-process.ts';

export interface FailureReport {
  readonly program: string;
  /** The worker that failed first. */
  readonly first: WorkerExit;
  /** Everybody's end, the first failure included, in order of time. */
  readonly exits: readonly WorkerExit[];
  /** How often the group had been started again. */
  readonly restarts: number;
}

/** Several lines of text, without a newline at the end. */
export function describeFailure({ program, first, exits, restarts }: FailureReport): string {
  const lines = [
    `backwire: ${program} failed`,
    `  first failure: [${first.label}] rank ${first.rank}, pid ${first.pid ?? 'none'} on ${hostname()}, ${describeExit(first)} ` +
      `at ${new Date(first.at).toISOString()} after ${(first.ranMs / 1000).toFixed(1)} s`,
  ];
  if (first.stderr.length > 0) {
    lines.push('  its last lines of standard error:', ...first.stderr.map((line) => `    ${line}`));
  }
  const others = exits.filter((exit) => exit !== first);
  if (others.length > 0) {
    lines.push(`  the others: ${others.map((exit) => `[${exit.label}] ${describeExit(exit)}`).join('; ')}`);
  }
  if (restarts > 0) lines.push(`  after ${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`);
  return lines.join('\n');
}
