/** @file Makes the recorded set anew: programs drawn once, with PyTorch's answers. */
import { writeFileSync } from 'node:fs';
import type { Checker } from './checker.ts';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';
import { compareRecorded, keep, pressed, type Recorded } from './recording.ts';
import { writePage } from './page.ts';
import { showGroup, groupFindings } from './groups.ts';
import { drawProgram } from './run.ts';
import { ported } from './operations/ported/table.ts';
import { portedSuite } from './suites/ported.ts';
import type { Suite } from './suites/suite.ts';
import { suites } from './suites/table.ts';

/** Programs of every function that models are ported with. */
export const PORTED = new URL('../golden/ported.bin.gz', import.meta.url);
export const RECORDED = new URL('../golden/recorded.bin.gz', import.meta.url);

/** How many programs of each suite: 5,000 in all. */
const SHARES: Readonly<Record<string, number>> = {
  operations: 2600,
  dtypes: 700,
  views: 600,
  chains: 300,
  second: 400,
  modules: 150,
  optimizers: 150,
  thresholds: 100,
};

/** A seed of its own, which no run reaches by counting. */
const SEED = 1_000_000;

/** Programs for each row of what models are ported with. */
const EACH = 10;

/** Writes both files, and what the second is of to the documentation. */
export async function record(checker: Checker, only: readonly Suite[]): Promise<boolean> {
  const wanted = only.some(({ name }) => name === portedSuite.name);
  const others = only.some(({ name }) => name !== portedSuite.name);
  const whole = !others || (await write(checker, RECORDED, SHARES));
  const parts = !wanted || (await write(checker, PORTED, { ported: EACH * ported.length }));
  if (wanted) writePage();
  return whole && parts;
}

/** Writes the file. Programs that differ here without an explanation are left out, and said to be. */
async function write(checker: Checker, file: URL, shares: Readonly<Record<string, number>>): Promise<boolean> {
  const cases: Recorded[] = [];
  let left = 0;
  for (const suite of suites) {
    const wanted = shares[suite.name] ?? 0;
    const step = suite.large === true ? 10 : 200;
    for (let at = 0, kept = 0; kept < wanted; at += step) {
      const programs = Array.from({ length: step }, (_, i) => drawProgram(suite, SEED, at + i));
      const { findings } = await checker.check(programs);
      const judged = await checker.torch.judge(programs);
      const ours = await Promise.all(checker.executors.map((executor) => executor.run(programs)));
      const differing = new Set(findings.map(({ program }) => program));
      left += new Set(findings.filter(({ explained }) => explained === undefined).map(({ program }) => program)).size;
      if (differing.size > 0)
        for (const group of groupFindings(findings.filter(({ explained }) => explained === undefined)))
          console.log(showGroup(group));
      for (const [i, program] of programs.entries()) {
        const one = judged[i];
        if (kept === wanted || one === undefined || differing.has(program) || isHuge(program, one.outcome)) continue;
        const recorded = keep(program, one.outcome, one.conditioning);
        // Without PyTorch's exact answer beside it, its own has to do.
        if (ours.some((outcomes) => compareRecorded(outcomes[i] as Outcome, recorded) !== undefined)) continue;
        cases.push(recorded);
        kept++;
      }
    }
  }
  const bytes = pressed({ torch: checker.torch.version, cases });
  writeFileSync(file, bytes);
  console.log(
    `${cases.length} programs recorded in ${(bytes.length / 1024).toFixed(0)} KiB; ${left} that differ left out`,
  );
  return left === 0;
}

/** Programs that would take more room than they are worth. */
function isHuge({ lines }: Program, { seen }: Outcome): boolean {
  return lines.length > 40 || Object.keys(seen).length > 150;
}
