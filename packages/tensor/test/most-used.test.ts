/** @file The 60 functions that public model code calls most are here, with PyTorch's answers; and the page for those who port says so. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { execute } from '../check/execute.ts';
import { isInput } from '../check/program.ts';
import { PORTED, RECORDED } from '../check/record.ts';
import { compareRecorded, unpressed, type Recorded } from '../check/recording.ts';
import { scope } from '../src/index.ts';
import { MOST_USED } from './most-used.ts';

const cases = [RECORDED, PORTED].flatMap((file) => unpressed(readFileSync(file)).cases);

/** A few of the programs that call it on both sides. */
function callsOf(ts: RegExp, py: RegExp): Recorded[] {
  const calls = ({ program }: Recorded): boolean =>
    program.lines.some((line) => !isInput(line) && ts.test(line.ts) && py.test(line.py));
  return cases.filter(calls).slice(0, 20);
}

describe('the 60 functions that models call most', () => {
  it('are 60', () => {
    expect(new Set(MOST_USED.map(({ torch }) => torch)).size).toBe(60);
  });

  it.each(MOST_USED.map((one) => [one.torch, one] as const))('%s', (_name, { proof }) => {
    if (typeof proof === 'function') {
      proof();
      return;
    }
    const calls = callsOf(proof.ts, proof.py);
    expect(calls.length).toBeGreaterThan(2);
    for (const one of calls) expect(scope(() => compareRecorded(execute(one.program), one))).toBeUndefined();
  });

  it('are in the documentation, in this order', () => {
    const page = readFileSync(new URL('../../../docs/porting.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| (\d+) +\| `(.+?)` +\| `(.+?)` +\|$/gm)].map(([, ...cells]) => cells);
    expect(rows).toEqual(MOST_USED.map(({ torch, here }, i) => [String(i + 1), torch, here]));
  });
});
