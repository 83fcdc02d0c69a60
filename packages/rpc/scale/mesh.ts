/** @file A group of many workers: `npm run mesh -w @backwire/rpc -- [--workers 64] [--processes N]`. */
import { availableParallelism, freemem } from 'node:os';
import { parseArgs } from 'node:util';
import { runMesh } from './mesh-run.ts';

/** A process with the loader that runs sources takes about this much. */
const BYTES_PER_PROCESS = 256 * 1024 * 1024;
/** The promise for 64 workers. */
const MOST_MS = 10_000;

const { values } = parseArgs({ options: { workers: { type: 'string' }, processes: { type: 'string' } } });
const workers = Number(values.workers ?? 64);
const fitting = Math.max(
  1,
  Math.min(workers, 4 * availableParallelism(), Math.floor(freemem() / 2 / BYTES_PER_PROCESS)),
);
const { processes, startedMs, meshedMs, calls, rssBytes, bytesPerEnd } = await runMesh(
  workers,
  Number(values.processes ?? fitting),
);
const totalMs = startedMs + meshedMs;
console.log(
  `${workers} workers in ${processes} processes: joined in ${Math.round(startedMs)} ms, meshed by ${calls} calls in ${Math.round(meshedMs)} ms, together ${Math.round(totalMs)} ms; ${Math.round(rssBytes / 2 ** 20)} MiB, ${Math.round(bytesPerEnd / 2 ** 10)} KiB an end of a session`,
);
if (totalMs > MOST_MS) {
  console.error(`more than ${MOST_MS} ms`);
  process.exitCode = 1;
}
