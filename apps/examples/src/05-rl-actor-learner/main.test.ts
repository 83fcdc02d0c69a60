/** @file The example as real processes. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

const main = join(import.meta.dirname, 'main.ts');
const out = mkdtempSync(join(tmpdir(), 'backwire-rl-'));
afterAll(() => rmSync(out, { recursive: true, force: true }));

it('learns to balance the pole, with several states in a forward pass', { timeout: 90_000 }, async () => {
  const { exitCode, output, report } = await launched(main, {
    processes: 4,
    args: ['--observers', '3', '--rounds', '40', '--out', out],
  });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  const rounds = [...output.matchAll(/round (\d+): poles stood ([\d.]+) steps, ([\d.]+) states/g)];
  expect(rounds.map(([, round]) => round)).toEqual(['10', '20', '30', '40']);
  expect(Number(rounds.at(-1)?.[2])).toBeGreaterThan(1.5 * Number(rounds[0]?.[2]));
  const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as {
    episodes: number;
    meanBatch: number;
    episodeSteps: number[][];
  };
  expect(summary.episodes).toBe(120);
  expect(summary.meanBatch).toBeGreaterThan(1.5);
  expect(summary.episodeSteps.map(({ length }) => length)).toEqual(Array(40).fill(3));
  expect(output).toMatch(/steps per second +[\d,]+/);
  expect(readFileSync(join(out, 'reward.svg'), 'utf8')).toMatch(/^<svg[\s\S]*mean of the round[\s\S]*<\/svg>\s*$/);
});
