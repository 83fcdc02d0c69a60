/**
 * @file Trains for 10,000 steps on every backend that is here and fails if anything that is held grows.
 * `npm run soak [-- --steps N] [--backend NAME …]`.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { backendName } from '../src/index.ts';
import { held, trainer, type Held } from './steady.ts';

/** What a process says whose backend needs something that is not there. */
const MISSING = /is installed|there is no BLAS library|needs the package 'koffi'/;

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '10000' },
    backend: { type: 'string', multiple: true, default: ['cpu', 'wasm', 'blas', 'tensorflow'] },
    inside: { type: 'boolean', default: false },
  },
});
/** How often memory is looked at; the first fifth warms up. */
const SAMPLES = 20;
/** What the allocators of V8 and of the C library come and go by. */
const RSS_SLACK = 16 * 2 ** 20;

if (values.inside) await soak(Number(values.steps));
else {
  for (const backend of values.backend) {
    const args = [...process.execArgv, fileURLToPath(import.meta.url), '--inside', '--steps', values.steps];
    const env = { ...process.env, BACKWIRE_BACKEND: backend };
    const child = spawnSync(process.execPath, args, { env, stdio: ['ignore', 'inherit', 'pipe'], encoding: 'utf8' });
    if (child.status === 0) continue;
    if (MISSING.test(child.stderr)) console.log(`${backend}: not installed here`);
    else {
      console.error(child.stderr);
      process.exitCode = 1;
    }
  }
}

async function soak(steps: number): Promise<void> {
  const train = trainer();
  const samples: Held[] = [];
  const start = performance.now();
  let loss = 0;
  for (let i = 0; i < SAMPLES; i++) {
    loss = await train(Math.ceil(steps / SAMPLES));
    samples.push(await held());
  }
  const early = samples.slice(SAMPLES / 5, SAMPLES / 2);
  const late = samples.slice(SAMPLES / 2);
  const problems: string[] = [];
  const line = (Object.keys(samples[0] as Held) as (keyof Held)[]).map((key) => {
    const [before, after] = [Math.max(...early.map((s) => s[key])), Math.max(...late.map((s) => s[key]))];
    if (after > before + (key === 'rss' ? RSS_SLACK : 0)) problems.push(`${key} grew from ${before} to ${after}`);
    return `${key} ${figure(key, before)} → ${figure(key, after)}`;
  });
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  console.log(`${backendName()}: ${steps} steps in ${seconds} s, loss ${loss.toFixed(4)}; ${line.join(', ')}`);
  if (problems.length > 0) throw new Error(problems.join('; '));
}

function figure(key: keyof Held, value: number): string {
  return key === 'rss' || key.toLowerCase().includes('bytes') ? `${(value / 2 ** 20).toFixed(2)} MiB` : String(value);
}
