/** @file What models that were written for PyTorch reach for: each function, layer and loss against recorded answers, gradients and refusals too. */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { execute } from '../check/execute.ts';
import { ported } from '../check/operations/ported/table.ts';
import { printProgram } from '../check/print.ts';
import { rowsOnPage, rowsWanted } from '../check/page.ts';
import { PORTED } from '../check/record.ts';
import { compareRecorded, unpressed, type Recorded } from '../check/recording.ts';
import { rowOf } from '../check/suites/ported.ts';
import { backendName, scope } from '../src/index.ts';

/** What to show of a program that differs; nothing of one that does not. */
function complaint(recorded: Recorded): string | undefined {
  const { program, refusal } = recorded;
  const difference = scope(() => compareRecorded(execute(program), recorded));
  if (difference === undefined) return undefined;
  const { path, ours, torchs } = difference;
  return `${program.seed}\n${printProgram(program, { refusal, seen: {} }).ts}\n${path}: ${ours.slice(0, 200)}; PyTorch: ${torchs.slice(0, 200)}`;
}

const { cases } = unpressed(readFileSync(PORTED));
const byRow = new Map<string, Recorded[]>();
for (const one of cases) {
  const { name } = rowOf(one.program.seed);
  byRow.set(name, [...(byRow.get(name) ?? []), one]);
}

describe('what PyTorch answered', () => {
  it.each(ported.map(({ name }) => name))('%s', (name) => {
    const own = byRow.get(name) ?? [];
    expect(own.length).toBeGreaterThan(1);
    expect(
      own
        .map(complaint)
        .filter((one) => one !== undefined)
        .slice(0, 3),
    ).toEqual([]);
  });

  it('is in the documentation, a row for each', () => {
    expect(rowsOnPage()).toEqual(rowsWanted());
  });

  afterAll(() => {
    console.info(
      `${backendName()}: ${cases.length} programs of ${ported.length} functions and layers compared with PyTorch`,
    );
  });
});
