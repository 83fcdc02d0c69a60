/** @file The build of the package in the working directory: declarations by tsc, and one file an entry, because 124 files take Node a tenth of a second. */
import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { digestOf, STAMP } from './sources.ts';

interface Manifest {
  readonly exports: Readonly<Record<string, string | object>>;
  readonly bin?: Readonly<Record<string, string>>;
}

/** The folder in `dist` with a file for each module. */
const MODULES = 'modules';

const folder = process.cwd();
const dist = join(folder, 'dist');
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;

rmSync(join(folder, STAMP), { force: true });
const digest = digestOf(folder);
const tsc = resolve(import.meta.dirname, '../node_modules/typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [tsc, '--build', 'tsconfig.lib.json'], { stdio: 'inherit' });
if (status !== 0) process.exit(1);

const binaries = Object.values(manifest.bin ?? {});
const files = [...filesOf(manifest.exports), ...binaries].filter(
  (file) => file.endsWith('.js') && !file.includes(`/${MODULES}/`),
);
const bundle = await rolldown({
  cwd: folder,
  input: Object.fromEntries(files.map((file) => [entryOf(file), `./src/${entryOf(file)}.ts`])),
  platform: 'node',
  // Other packages stay other packages.
  external: (id, importer) => importer !== undefined && !/^[./]/.test(id),
  transform: { target: 'es2022' },
});
const { output } = await bundle.write({
  dir: dist,
  format: 'esm',
  entryFileNames: '[name].js',
  // What several entries use is there once: two copies would be two states.
  chunkFileNames: ({ isDynamicEntry }) => (isDynamicEntry ? '[name]-[hash].js' : 'shared-[hash].js'),
  sourcemap: true,
  // The sources are published beside it.
  sourcemapExcludeSources: true,
  comments: false,
  minify: false,
  minifyInternalExports: false,
});
await bundle.close();
const modules = await writeModules();
for (const file of binaries) chmodSync(join(folder, file), 0o755);
removeAllBut(new Set([...output.map(({ fileName }) => fileName), ...modules]));
writeFileSync(join(folder, STAMP), digest);

/**
 * The form for bundlers, which read the condition `browser`: a file a module, so that they leave out what a program does not use. In one
 * file they cannot: what a module does when it is loaded would have to stay, with all that it uses. Answers the files, from `dist`.
 */
async function writeModules(): Promise<string[]> {
  const entries = browserFilesOf(manifest.exports).map((file) => entryOf(file.replace(`/${MODULES}/`, '/')));
  if (entries.length === 0) return [];
  const separate = await rolldown({
    cwd: folder,
    input: Object.fromEntries(entries.map((entry) => [entry, `./src/${entry}.ts`])),
    platform: 'browser',
    external: (id, importer) => importer !== undefined && !/^[./]/.test(id),
    transform: { target: 'es2022' },
  });
  const { output: written } = await separate.write({
    dir: join(dist, MODULES),
    format: 'esm',
    preserveModules: true,
    preserveModulesRoot: 'src',
    entryFileNames: '[name].js',
    sourcemap: true,
    sourcemapExcludeSources: true,
    comments: { annotation: true, legal: false, jsdoc: false },
    minify: false,
  });
  await separate.close();
  return written.map(({ fileName }) => `${MODULES}/${fileName}`);
}

/** Those of them in which every module is a file of its own. */
function browserFilesOf(target: string | object): string[] {
  return filesOf(target).filter((file) => file.includes(`/${MODULES}/`));
}

/** Every file that the `exports` map leads to. */
function filesOf(target: string | object): string[] {
  return typeof target === 'string'
    ? [target]
    : Object.values(target as Record<string, string | object>).flatMap(filesOf);
}

/** './dist/index.js' is the entry 'index', made of 'src/index.ts'. */
function entryOf(file: string): string {
  return file.replace(/^\.\/dist\//, '').replace(/\.js$/, '');
}

/** Removes what an earlier build left: code that is not of this one, and declarations of sources that are gone. */
function removeAllBut(written: ReadonlySet<string>): void {
  const sources = new Set(readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' }));
  for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const declares = /^(.*)\.d\.ts(?:\.map)?$/.exec(file)?.[1];
    const stale =
      declares === undefined ? /\.js(\.map)?$/.test(file) && !written.has(file) : !sources.has(`${declares}.ts`);
    if (stale) rmSync(join(dist, file));
  }
}
