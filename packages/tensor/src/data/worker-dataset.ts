/** @file Data sets, and functions, that a thread of a `DataLoader` finds again: each is an export of a module. */
import { randomState } from '../random.ts';
import { ConcatDataset, Subset, type Dataset } from './dataset.ts';
import type { SampleStream } from './sources.ts';
import { SERVE, type DatasetRecipe, type ModuleExport } from './worker-messages.ts';
import { serve } from './worker-server.ts';

type AnyDataset = Dataset<unknown> | readonly unknown[] | SampleStream<unknown>;

/** How each data set that `workerDataset`'s functions have opened is opened elsewhere. */
const recipes = new WeakMap<object, DatasetRecipe>();
/** Where each function of `workerFunction` is found. */
const places = new WeakMap<object, ModuleExport>();

/**
 * A function that opens a data set, for loaders with `numWorkers`: what it opens is known to come from here, and each thread loads the module
 * and opens a copy with the same arguments. Call it at the top of a module of its own, for the thread runs all that the module does.
 *
 * ```ts
 * export const digits = data.workerDataset(import.meta.url, 'digits', (folder: string) => new Digits(folder));
 * // elsewhere: new data.DataLoader(digits('/data'), { batchSize: 64, numWorkers: 4 })
 * ```
 *
 * @param url the module's own, `import.meta.url`; where a bundler moves code, the URL of a file that exports the function too
 * @param name under which name the module exports the result; 'default' for its default export
 * @param open may answer a promise, then so does the result. Its arguments are cloned for the threads; shared memory stays shared.
 */
export function workerDataset<A extends readonly unknown[], D extends AnyDataset | Promise<AnyDataset>>(
  url: string | URL,
  name: string,
  open: (...args: A) => D,
): (...args: A) => D {
  const place = placeOf(url, name, 'workerDataset');
  const opened = (args: A, random: Uint32Array, dataset: AnyDataset): AnyDataset => {
    if (typeof dataset !== 'object' || dataset === null)
      throw new TypeError(`workerDataset: '${name}' opened ${String(dataset)}, which is no data set`);
    recipes.set(dataset, { kind: 'module', ...place, args, random });
    return dataset;
  };
  const factory = (...args: A): D => {
    const random = randomState();
    const dataset = open(...args);
    if (dataset instanceof Promise) return dataset.then((one) => opened(args, random, one)) as D;
    return opened(args, random, dataset) as D;
  };
  return Object.assign(factory, { [SERVE]: serve });
}

/**
 * `fn` itself, which a loader with `numWorkers` may take from now on as its `collate` or `workerInit`: its threads find it in the module.
 * @param url the module's own, `import.meta.url`
 * @param name under which name the module exports the function
 */
export function workerFunction<F extends (...args: never[]) => unknown>(url: string | URL, name: string, fn: F): F {
  if (typeof fn !== 'function') throw new TypeError(`workerFunction: '${name}' is no function`);
  places.set(fn, placeOf(url, name, 'workerFunction'));
  return fn;
}

function placeOf(url: string | URL, name: string, what: string): ModuleExport {
  const { href } = URL.canParse(String(url)) ? new URL(url) : { href: undefined };
  if (href === undefined)
    throw new TypeError(`${what}: the URL of the module is import.meta.url, or new URL(…, import.meta.url); got '${String(url)}'`); // prettier-ignore
  if (typeof name !== 'string' || name === '')
    throw new TypeError(`${what}: under which name does the module export it? 'default' for a default export`);
  return { url: href, name };
}

/** How a thread makes its copy of `dataset`; undefined where it cannot. */
export function recipeOf(dataset: object): DatasetRecipe | undefined {
  const known = recipes.get(dataset);
  if (known !== undefined) return known;
  if (dataset instanceof Subset) {
    const of = recipeOf(dataset.dataset);
    return of && { kind: 'subset', of, indices: dataset.indices };
  }
  if (dataset instanceof ConcatDataset) {
    const of = dataset.datasets.map(recipeOf);
    return of.includes(undefined) ? undefined : { kind: 'concat', of: of as DatasetRecipe[] };
  }
  return undefined;
}

/** Where a thread finds `fn`; undefined where it cannot. */
export function exportOf(fn: object): ModuleExport | undefined {
  return places.get(fn);
}

/** The first of the modules that a recipe names. */
export function entryOf(recipe: DatasetRecipe): ModuleExport {
  if (recipe.kind === 'module') return { url: recipe.url, name: recipe.name };
  const of = recipe.kind === 'subset' ? recipe.of : recipe.of[0];
  return entryOf(of as DatasetRecipe);
}
