/**
 * @file Loads the sources with their types cut out and nothing added, as they are published. tsx wraps every function made inside of
 * another to keep its name, which costs more than some of what is measured here.
 */
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { URL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { transform } from 'esbuild';

// The same file is the registration, in the program's thread, and the hooks, in the loader's.
if (isMainThread) register(import.meta.url);

/** The part of Node's loader hooks that is needed: see `module.register`. */
export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const path = new URL(url);
  const { code } = await transform(await readFile(path, 'utf8'), {
    loader: 'ts',
    target: 'node20',
    sourcefile: path.pathname,
    sourcemap: 'inline',
  });
  return { format: 'module', source: code, shortCircuit: true };
}
