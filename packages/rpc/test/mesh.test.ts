/** @file A group of more workers than processes starts and meshes; `npm run mesh -w @backwire/rpc` does it with 64. */
import { expect, it } from 'vitest';
import { runMesh } from '../scale/mesh-run.ts';

it('sixteen workers in two processes join, and every one calls every one', { timeout: 90_000 }, async () => {
  const report = await runMesh(16, 2);
  expect(report).toMatchObject({ workers: 16, processes: 2, calls: 256 });
  const { startedMs, meshedMs } = report;
  console.log(`16 workers in 2 processes: joined in ${Math.round(startedMs)} ms, meshed in ${Math.round(meshedMs)} ms`);
});
