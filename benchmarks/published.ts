/** @file Programs as users run them: plain JavaScript in one file, without the loader that sources need. Its memory would count as ours. */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** Inside of the repository, so that packages are found. */
const HERE = new URL('./out-tsc/', import.meta.url);

let published = 0;

/**
 * The programs of a directory that exists until `dispose`, in the order given. Only packages of this repository are in the files. Where one
 * names another of them, to start it, it names the published one.
 * @param parent where the directory is made: packages are looked for from there
 */
export async function publish(
  programs: readonly URL[],
  parent = HERE,
): Promise<{ programs: URL[]; dispose: () => void }> {
  const directory = join(fileURLToPath(parent), `published-${process.pid}-${published++}`);
  const files = programs.map((program) => fileURLToPath(program));
  mkdirSync(directory, { recursive: true });
  const dispose = (): void => rmSync(directory, { recursive: true, force: true });
  try {
    await build({
      entryPoints: files,
      outdir: directory,
      outExtension: { '.js': '.mjs' },
      entryNames: '[name]',
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
              kind === 'entry-point' || /^(@backwire\/|backwire(\/|$))/.test(path)
                ? undefined
                : { path, external: true },
            ),
        },
        {
          name: 'each other',
          setup: (building) =>
            building.onLoad({ filter: /\.ts$/ }, ({ path }) => {
              if (!files.includes(path)) return undefined;
              const names = files.map((file) => basename(file, '.ts'));
              const contents = names.reduce(
                (text, name) => text.replaceAll(`'${name}.ts'`, `'${name}.mjs'`),
                readFileSync(path, 'utf8'),
              );
              return { contents, loader: 'ts' };
            }),
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
