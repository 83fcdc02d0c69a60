/** @file Programs as users run them: plain JavaScript in one file, without the loader that sources need. Its memory would count as ours. */
import { mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** Inside of the repository, so that packages are found. */
const PARENT = fileURLToPath(new URL('./out-tsc/', import.meta.url));

/** The programs of a directory that exists until `dispose`, in the order given. Only packages of this repository are in the files. */
export async function publish(programs: readonly URL[]): Promise<{ programs: URL[]; dispose: () => void }> {
  const directory = join(PARENT, `published-${process.pid}`);
  mkdirSync(directory, { recursive: true });
  const dispose = (): void => rmSync(directory, { recursive: true, force: true });
  try {
    await build({
      entryPoints: programs.map((program) => fileURLToPath(program)),
      outdir: directory,
      outExtension: { '.js': '.mjs' },
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      conditions: ['@backwire/source'],
      plugins: [
        {
          name: 'packages',
          setup: (building) =>
            building.onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
              kind === 'entry-point' || path.startsWith('@backwire/') ? undefined : { path, external: true },
            ),
        },
      ],
    });
  } catch (error) {
    dispose();
    throw error;
  }
  const urls = programs.map((program) => pathToFileURL(join(directory, basename(program.pathname, '.ts') + '.mjs')));
  return { programs: urls, dispose };
}
