/**
 * @file TensorFlow.js's own gradients, which its build for Node leaves out and the package `@tensorflow/tfjs` puts in: bundled once, for the
 * programs that are compared with.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';

let bundled: Promise<string> | undefined;

/** A module that registers them when it is imported; it is gone when this process is. */
export function gradientsFile(): Promise<string> {
  return (bundled ??= bundle());
}

async function bundle(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'training-gradients-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, 'gradients.mjs');
  const entry = createRequire(import.meta.url).resolve('@tensorflow/tfjs-core/dist/register_all_gradients.js');
  await build({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm', logLevel: 'error' });
  return outfile;
}
