/** @file The example as four real processes. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

const main = join(import.meta.dirname, 'main.ts');
const out = mkdtempSync(join(tmpdir(), 'backwire-pipeline-'));
afterAll(() => rmSync(out, { recursive: true, force: true }));

interface Summary {
  readonly accuracy: number;
  readonly settings: readonly { readonly microBatches: number; readonly loss: number; readonly stagesAtWork: number }[];
}

it('trains a network that lies on three workers, in 1, 2 and 4 micro-batches', { timeout: 240_000 }, async () => {
  const args = ['--batches', '10', '--batch-size', '48', '--test-digits', '200', '--out', out];
  const { exitCode, output, report } = await launched(main, { processes: 4, args });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as Summary;
  expect(summary.settings.map(({ microBatches }) => microBatches)).toEqual([1, 2, 4]);
  const losses = summary.settings.map(({ loss }) => loss);
  expect(losses[2]).toBeLessThan(losses[0] ?? 0);
  // In one part the stages follow each other. How far four parts overlap depends on what else the machine does.
  const atWork = summary.settings.map(({ stagesAtWork }) => stagesAtWork);
  expect(atWork[0]).toBeLessThanOrEqual(1.01);
  for (const stages of atWork) expect(stages).toBeGreaterThan(0);
  expect(output).toMatch(/fastest: [124] micro-batch/);
  // Guessing gets 0.1.
  expect(summary.accuracy).toBeGreaterThan(0.4);
  expect(output).toMatch(/test accuracy \d\d\.\d\d %/);
  const svg = readFileSync(join(out, 'timeline.svg'), 'utf8');
  // Three workers, forward and backward, of 1 + 2 + 4 micro-batches.
  for (const kind of ['F', 'B']) expect(svg.match(new RegExp(`<title>${kind}\\d:`, 'g'))).toHaveLength(3 * 7);
});

it('says how it wants to be started', { timeout: 60_000 }, async () => {
  const { exitCode, report } = await launched(main, { processes: 1 });
  expect(exitCode).toBe(2);
  expect(report).toContain('these flags need 4 workers (master, stage1, stage2, stage3), there are 1');
});
