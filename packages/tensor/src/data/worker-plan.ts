/** @file What the threads of a loader are told of it, or why they cannot be. */
import type { DataLoaderOptions } from './loader-options.ts';
import { entryOf, exportOf, recipeOf } from './worker-dataset.ts';
import type { LoaderThreadPlan, ModuleExport } from './worker-messages.ts';
import { checkThreads } from './worker-threads.ts';

/**
 * @throws TypeError for a data set, or a function, that a thread cannot find; TensorError where there are no threads.
 */
export function planOf<T, B>(dataset: object, stream: boolean, options: DataLoaderOptions<T, B>): LoaderThreadPlan {
  checkThreads();
  const { numWorkers = 0, batchSize = 1, dropLast = false, collate, workerInit } = options;
  const recipe = recipeOf(dataset);
  if (recipe === undefined)
    throw new TypeError(
      `DataLoader: numWorkers ${numWorkers} needs a data set that each thread can open: one from a function of data.workerDataset(import.meta.url, name, open), in a module of its own, or a Subset or ConcatDataset of such. What is in memory already is fastest with numWorkers 0`,
    );
  const entry = entryOf(recipe);
  if (isProgram(entry.url))
    throw new TypeError(
      `DataLoader: the data set '${entry.name}' lies in the program itself (${entry.url}), which each thread would run again: move it to a module of its own`,
    );
  return {
    entry,
    recipe,
    stream,
    numWorkers,
    batchSize: options.batchSampler === undefined ? batchSize : 1,
    dropLast,
    collate: foundIn('collate', collate),
    workerInit: foundIn('workerInit', workerInit),
    typescript: typescriptFor(entry.url),
  };
}

function foundIn(option: string, fn: object | undefined): ModuleExport | undefined {
  if (fn === undefined) return undefined;
  const place = exportOf(fn);
  if (place !== undefined) return place;
  throw new TypeError(
    `DataLoader: with numWorkers, ${option} runs in threads, which have to find it: make it with data.workerFunction(import.meta.url, name, fn) in a module of its own`,
  );
}

/** Whether a module is the one that Node was started with. */
function isProgram(url: string): boolean {
  const [, program] = globalThis.process?.argv ?? [];
  const fs = globalThis.process?.getBuiltinModule?.('node:fs');
  if (program === undefined || fs === undefined || !url.startsWith('file:')) return false;
  try {
    return fs.realpathSync(program) === fs.realpathSync(new URL(url));
  } catch {
    return false;
  }
}

/**
 * What makes a thread load TypeScript: tsx, where the program runs under it or Node itself does not know the language. undefined where it
 * is not needed, or not there: then the thread says what it could not load.
 */
function typescriptFor(url: string): string | undefined {
  const { process } = globalThis;
  const nodeModule = process?.getBuiltinModule?.('node:module');
  const nodeUrl = process?.getBuiltinModule?.('node:url');
  const fs = process?.getBuiltinModule?.('node:fs');
  if (nodeModule === undefined || nodeUrl === undefined || fs === undefined) return undefined;
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ');
  const underTsx = /\btsx\b/.test(flags);
  const known = Boolean((process.features as { typescript?: unknown }).typescript);
  if (!underTsx && (known || !/\.[cm]?tsx?(?:[?#]|$)/.test(url))) return undefined;
  const loader = /\S*\btsx[\\/]dist[\\/]\S*/.exec(flags)?.[0];
  for (const base of [loader, url, nodeUrl.pathToFileURL(`${process.cwd()}/`).href]) {
    if (base === undefined) continue;
    try {
      // The program's, not one of this package. Its exports are named by what imports them, which `resolve` does not.
      const manifest = nodeModule.createRequire(base).resolve('tsx/package.json');
      const { exports } = JSON.parse(fs.readFileSync(manifest, 'utf8')) as TsxManifest;
      return new URL(exports['./esm/api'].import.default, nodeUrl.pathToFileURL(manifest)).href;
    } catch {
      // It may be found from elsewhere.
    }
  }
  return undefined;
}

interface TsxManifest {
  readonly exports: { readonly './esm/api': { readonly import: { readonly default: string } } };
}
