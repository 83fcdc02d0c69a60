/** @file Finds and loads the native addon of TensorFlow.js. */
import { TensorError } from '../errors.ts';
import { getNumThreads, onThreads } from './threads.ts';
import { requireHere, tfCore, type Require, type TfModule } from './tfjs.ts';

const PACKAGES = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'] as const;
/** Where `npm run setup:tensorflow` installs. */
const SETUP = '../node_modules/.tensorflow/node_modules/';

/**
 * Loads @tensorflow/tfjs-node-gpu or @tensorflow/tfjs-node and makes it TensorFlow.js's backend; answers its folder too. With `searchSetup` the place where
 * `npm run setup:tensorflow` installs counts too: only when the backend was asked for by name, so that a set-up checkout goes on
 * as before otherwise.
 * @throws TensorError when neither is installed, or the one that is does not start.
 */
export function loadTfjsNode(searchSetup: boolean): { readonly tf: TfModule; readonly folder: string } {
  const require = requireHere();
  if (require === undefined) throw new TensorError('the tensorflow backend needs Node');
  const found = locate(require) ?? (searchSetup ? locate(require, SETUP) : undefined);
  if (found === undefined) {
    throw new TensorError(
      'neither @tensorflow/tfjs-node nor @tensorflow/tfjs-node-gpu is installed; in a checkout, `npm run setup:tensorflow` builds the former',
    );
  }
  const tf = tfCore();
  // Read by the native library while it loads: only errors on stderr.
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '3';
  const threads = getNumThreads();
  process.env['TF_NUM_INTRAOP_THREADS'] ??= String(threads);
  // Removed in Node 23; the addon's JavaScript calls it.
  const util = require('node:util') as { isNullOrUndefined?: (v: unknown) => boolean };
  util.isNullOrUndefined ??= (v) => v === null || v === undefined;
  try {
    require(found);
  } catch (error) {
    throw new TensorError(`${found} is installed but does not load: ${String(error)}`, { cause: error });
  }
  // Its factory does not wait, so that the change is made at once.
  void tf.setBackend('tensorflow');
  if (tf.engine().registry['tensorflow'] === undefined)
    throw new TensorError(`${found} is installed but did not start`);
  onThreads((wanted) => {
    if (wanted !== threads)
      throw new TensorError(`the tensorflow backend has started with ${threads} threads: set their number before`);
  });
  // Its main file is one folder down.
  const path = process.getBuiltinModule('node:path');
  return { tf, folder: path.dirname(path.dirname(found)) };
}

/** Whether one of the two is installed, which says nothing of whether it loads. */
export function hasTfjsNode(): boolean {
  const require = requireHere();
  return require !== undefined && locate(require) !== undefined;
}

/** The path of the first of the two packages that resolves, in the folder that comes before. */
function locate(require: Require, folder = ''): string | undefined {
  for (const id of PACKAGES) {
    try {
      return require.resolve(`${folder}${id}`);
    } catch {
      // Not this one.
    }
  }
  return undefined;
}
