/** @file Random programs with what PyTorch answered (`npm run check:numerics`): a set drawn once, and those that once differed. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { explain, EXPLANATIONS } from '../check/explained.ts';
import { execute } from '../check/execute.ts';
import { printProgram } from '../check/print.ts';
import { RECORDED } from '../check/record.ts';
import { compareRecorded, unpressed, type Recorded } from '../check/recording.ts';
import { readRegressions } from '../check/regressions.ts';
import { backendName, scope } from '../src/index.ts';

/** Differences that only some backends have: the set was drawn without them. */
const OF_THE_BACKEND: ReadonlySet<string> = new Set(['betas in single precision']);

/** What to show of a program that differs; nothing of one that does not. */
function complaint({ program, refusal, seen }: Recorded): string | undefined {
  const ours = scope(() => execute(program));
  const difference = compareRecorded(ours, { program, refusal, seen });
  if (difference === undefined) return undefined;
  const found = { program, difference, ours, torchs: { refusal, seen }, backend: backendName() };
  if (OF_THE_BACKEND.has(explain(found) ?? '')) return undefined;
  const { ts } = printProgram(program, { refusal, seen: {} });
  const { path, torchs } = difference;
  return `${program.seed}\n${ts}\n${path}: ${difference.ours.slice(0, 200)}; PyTorch: ${torchs.slice(0, 200)}`;
}

describe('programs recorded with their answers', () => {
  const { cases } = unpressed(readFileSync(RECORDED));
  const names = [...new Set(cases.map(({ program }) => program.suite))];

  it('are 5,000 of every kind', () => {
    expect(cases).toHaveLength(5_000);
    expect(names.sort()).toEqual(
      ['chains', 'dtypes', 'modules', 'operations', 'optimizers', 'second', 'thresholds', 'views'].sort(),
    );
  });

  it.each(names)('%s', (name) => {
    const wrong = cases.filter(({ program }) => program.suite === name).map(complaint);
    expect(wrong.filter((one) => one !== undefined).slice(0, 5)).toEqual([]);
    if (name === names[0]) console.info(`${backendName()}: ${cases.length} recorded programs compared with PyTorch`);
  });
});

describe('programs that once differed', () => {
  it.each(readRegressions().filter(({ open }) => !open))('$title', (one) => {
    expect(complaint(one.case)).toBeUndefined();
  });
});

describe('the differences that are meant', () => {
  it('are in the documentation, each with its reason', () => {
    const page = readFileSync(new URL('../../../docs/numerics.md', import.meta.url), 'utf8');
    const meant = page.split(/^## /m).find((part) => part.startsWith('Differences that are meant')) ?? '';
    const rows = [...meant.matchAll(/^\| (?!-|difference )(.+?) +\| (.+?) +\|$/gm)].map(([, name, reason]) => ({
      name,
      reason,
    }));
    expect(rows).toEqual(EXPLANATIONS.map(({ name, reason }) => ({ name, reason })));
  });
});
