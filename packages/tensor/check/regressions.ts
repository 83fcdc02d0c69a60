/** @file The programs that once differed: kept with PyTorch's answers, run by the tests for ever after. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { compare } from './compare.ts';
import type { Checker } from './checker.ts';
import { explain } from './explained.ts';
import type { Group } from './groups.ts';
import { printProgram } from './print.ts';
import { compareRecorded, keep, type Recorded } from './recording.ts';
import type { Outcome } from './outcome.ts';

const FILE = new URL('../golden/regressions.json', import.meta.url);

export interface Regression {
  /** The program in TypeScript. */
  readonly title: string;
  /** Not mended yet: the tests only say how many there are. */
  readonly open: boolean;
  readonly case: Recorded;
}

/** Bytes as text: the file is read by people, too. */
function toText(value: unknown): string {
  const bytes = (_: string, one: unknown): unknown => {
    if (one === undefined) return { $undefined: true };
    if (one instanceof Uint8Array) return { $base64: Buffer.from(one).toString('base64') };
    if (typeof one === 'number' && (!Number.isFinite(one) || Object.is(one, -0)))
      return { $number: String(one) === '0' ? '-0' : String(one) };
    return one;
  };
  return JSON.stringify(value, bytes, 1);
}

function fromText(text: string): unknown {
  return JSON.parse(text, (_, one: unknown) => {
    if (typeof one !== 'object' || one === null) return one;
    if ('$base64' in one) return new Uint8Array(Buffer.from(String(one.$base64), 'base64'));
    if ('$undefined' in one) return undefined;
    return '$number' in one ? Number(one.$number) : one;
  });
}

export function readRegressions(): Regression[] {
  return existsSync(FILE) ? (fromText(readFileSync(FILE, 'utf8')) as Regression[]) : [];
}

/** Adds what was found, and notes which of the kept ones do not differ any more on any backend. */
export async function keepRegressions(checker: Checker, groups: readonly Group[]): Promise<void> {
  const known = readRegressions();
  const programs = [...known.map((one) => one.case.program), ...groups.map(({ smallest }) => smallest.program)];
  const [judged, ...ours] = await Promise.all([
    checker.torch.judge(programs),
    ...checker.executors.map((executor) => executor.run(programs)),
  ]);
  const all = new Map<string, Regression>();
  for (const [i, program] of programs.entries()) {
    const one = judged[i];
    if (one === undefined || one.outcome.refusal?.name === 'Crash') continue;
    const open = ours.some((outcomes, b) => {
      const mine = outcomes[i] as Outcome;
      const found = compare(mine, one.outcome, one.conditioning);
      const backend = checker.executors[b]?.backend ?? '';
      return found.some(
        (difference) => explain({ program, difference, backend, torchs: one.outcome, ours: mine }) === undefined,
      );
    });
    const title = printProgram(program, one.outcome).ts.replaceAll('\n', ' ');
    const kept = keep(program, one.outcome, one.conditioning);
    // What is left of it is meant: the tests hold it against the recorded answer alone.
    const meant = ours.some((outcomes) => compareRecorded(outcomes[i] as Outcome, kept) !== undefined);
    if (!all.has(title) && (open || !meant)) all.set(title, { title, open, case: kept });
  }
  writeFileSync(FILE, `${toText([...all.values()])}\n`);
  const open = [...all.values()].filter((one) => one.open).length;
  console.log(`\n${all.size} regressions kept, ${open} of them open`);
}
