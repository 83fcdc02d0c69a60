/** @file A group of more workers than processes starts and meshes; `npm run mesh -w @backwire/rpc` does it with 64. */
import { expect, it } from 'vitest';
import { runMesh } from '../scale/mesh-run.ts';

it('sixteen workers in two processes join, and every one calls every one', { timeout: 90_000 }, async () => {
  const report = await runMesh(16, 2);
  expect(report).toMatchObject({ workers: 16, processes: 2, calls: 256 });
  const { startedMs, meshedMs } = report;
  console.log(`16 workers in 2 processes: joined in ${Math.round(startedMs)} ms, meshed in ${Math.round(meshedMs)} ms`);
});

it(
  'ninety-six workers in four processes: all shake hands with all, and nobody who lives is out of reach',
  { timeout: 300_000 },
  async () => {
    const report = await runMesh(96, 4);
    expect(report).toMatchObject({ workers: 96, processes: 4, calls: 96 * 96 });
    const { startedMs, meshedMs, bytesPerEnd } = report;
    // With all its buffers from the start an end of a session takes 256 KiB.
    expect(bytesPerEnd).toBeLessThan(160 * 2 ** 10);
    console.log(
      `96 workers in 4 processes: joined in ${Math.round(startedMs)} ms, meshed in ${Math.round(meshedMs)} ms, ${Math.round(bytesPerEnd / 2 ** 10)} KiB an end of a session`,
    );
  },
);
