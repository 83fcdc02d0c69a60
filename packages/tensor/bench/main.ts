/**
 * @file Times tensor operations and training steps on every backend that is here, in turns with PyTorch on one thread.
 * `npm run bench [-- --quick] [--json FILE] [--backend NAME …] [--only PART-OF-A-NAME]`; BACKWIRE_TORCH_PYTHON names a Python with torch.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Row } from './measure.ts';
import { findTorch } from './torch.ts';

/** What a process says whose backend needs something that is not there. */
const MISSING = /is installed|there is no BLAS library|needs the package 'koffi'/;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    backend: { type: 'string', multiple: true, default: ['cpu', 'wasm', 'blas', 'tensorflow'] },
    only: { type: 'string', default: '' },
  },
});

console.log(`Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`);
const python = findTorch();
if (python === undefined) {
  console.log('No PyTorch here (BACKWIRE_TORCH_PYTHON names a Python that has it): our own times only.');
}
console.log(line({ name: '', backend: 'backend', ours: 'ours', peer: 'torch', ratio: 'ratio', goal: 'goal' }));
const rows: Row[] = [];
for (const backend of values.backend) {
  const own = await runBackend(backend);
  if (own === 0) console.log(`${backend}: skipped, it is not installed here`);
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`);

/** Starts a process for one backend, prints and keeps its rows, and answers how many there were. */
async function runBackend(backend: string): Promise<number> {
  const effort = values.quick ? 'quick' : 'full';
  const script = fileURLToPath(new URL('backend.ts', import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, script, effort, python ?? '', values.only], {
    // One thread on both sides.
    env: { TF_NUM_INTRAOP_THREADS: '1', OMP_NUM_THREADS: '1', ...process.env, BACKWIRE_BACKEND: backend },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
  let count = 0;
  for await (const text of createInterface({ input: child.stdout })) {
    const row = JSON.parse(text) as Row;
    rows.push(row);
    count++;
    console.log(describe(row));
  }
  const code = await exit;
  const missing = MISSING.test(errors);
  if (code !== 0 && !missing) throw new Error(`the ${backend} process failed:\n${errors}`);
  return count;
}

function describe({ name, backend, ours, peer, ratio, goal }: Row): string {
  const verdict = ratio === null || goal === null ? '' : `≤ ${goal}${ratio <= goal ? '' : '  MISSED'}`;
  return line({ name, backend, ours: time(ours), peer: time(peer), ratio: ratio?.toFixed(2) ?? '', goal: verdict });
}

function line(cells: {
  name: string;
  backend: string;
  ours: string;
  peer: string;
  ratio: string;
  goal: string;
}): string {
  const { name, backend, ours, peer, ratio, goal } = cells;
  return `${backend.padEnd(11)} ${name.padEnd(44)} ${ours.padStart(12)} ${peer.padStart(12)} ${ratio.padStart(7)}  ${goal}`;
}

function time(ms: number | null): string {
  if (ms === null) return '';
  return ms < 1 ? `${(ms * 1000).toFixed(2)} us` : `${ms.toFixed(2)} ms`;
}
