/**
 * @file Loads the sources with their types cut out and nothing added, as they are published. tsx wraps every function made inside of
 * another to keep its name, which costs more than some of what is measured here.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath, URL } from 'node:url';
import { isMainThread, threadId } from 'node:worker_threads';

// The same file is the registration, in the program's thread, and the hooks, in the loader's.
if (isMainThread) register(import.meta.url);

/** The part of Node's loader hooks that is needed: see `module.register`. */
export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const path = new URL(url);
  return { format: 'module', source: await cut(path.pathname, await readFile(path, 'utf8')), shortCircuit: true };
}

/** Where what was cut before is kept: a job of several processes loads some hundred files in each. */
const KEPT = fileURLToPath(new URL('../node_modules/.cache/backwire-plain', import.meta.url));

async function cut(file, source) {
  const kept = `${KEPT}/${createHash('sha256').update(`${file}\n${source}`).digest('hex')}.js`;
  try {
    return await readFile(kept, 'utf8');
  } catch {
    const { transform } = await import('esbuild');
    const { code } = await transform(source, {
      loader: 'ts',
      target: 'node20',
      sourcefile: file,
      sourcemap: 'inline',
    });
    await mkdir(KEPT, { recursive: true });
    // Another process may be at it too.
    const own = `${kept}.${process.pid}.${threadId}`;
    await writeFile(own, code);
    await rename(own, kept);
    return code;
  }
}
