/** @file What is said when a group fails: the first failure by time, and what became of the others. */
import { hostname } from 'node:os';
import type { ProgramCommand } from './program.ts';
import { describeExit, type WorkerExit } from './worker-process.ts';

export interface FailureReport {
  readonly command: Pick<ProgramCommand, 'program' | 'stripsTypes'>;
  /** The worker that failed first. */
  readonly first: WorkerExit;
  /** Everybody's end, the first failure included, in order of time. */
  readonly exits: readonly WorkerExit[];
  /** How often the group had been started again. */
  readonly restarts: number;
}

/** Several lines of text, without who says it and without a newline at the end. */
export function describeFailure({ command, first, exits, restarts }: FailureReport): string {
  const lines = [
    `${command.program} failed`,
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
  if (command.stripsTypes === true && first.stderr.some((line) => UNSTRIPPED.test(line))) lines.push(STRIPPING_HINT);
  return lines.join('\n');
}

/** What Node says of TypeScript that is more than types. */
const UNSTRIPPED = /SyntaxError|ERR_MODULE_NOT_FOUND|ERR_UNSUPPORTED_DIR_IMPORT|ERR_\w*TYPESCRIPT\w*|TYPE_STRIPPING/;
const STRIPPING_HINT =
  "  hint: Node's own type stripping ran it, for want of tsx, and knows neither enums nor imports of './x.js' for x.ts, nor 'using' " +
  'before Node 24; where tsx is installed (npm install --save-dev tsx), tsx runs it';
