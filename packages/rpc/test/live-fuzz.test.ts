/** @file The port of an agent under damaged frames, for a moment; `npm run fuzz -- --suite live` goes on for longer. */
import { expect, it } from 'vitest';
import { fuzzLive } from '../fuzz/live-run.ts';

it('an agent outlives damaged frames of strangers and members, and serves everybody else meanwhile', async () => {
  const report = await fuzzLive(5_000, 7);
  expect(report.frames).toBe(5_000);
  expect(report.strangers).toBeGreaterThan(0);
  expect(report.broken).toBeGreaterThan(5);
  // Frames that were damaged only inside of their values are answered, with an error of theirs.
  expect(report.answers).toBeGreaterThan(20);
  expect(report.askedBytes).toBeGreaterThan(10 * 2 ** 30);
  // Far below that, and below what a damaged length can ask for.
  expect(report.grownBytes).toBeLessThan(512 * 1024 * 1024);
}, 60_000);
