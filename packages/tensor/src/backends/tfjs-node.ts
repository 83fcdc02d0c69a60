/** @file Finds and loads the native addon of TensorFlow.js. */
import { TensorError } from '../errors.ts';
import { loadTf, type TfModule } from './tfjs.ts';

const PACKAGES = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'] as const;

/**
 * Loads @tensorflow/tfjs-node-gpu or @tensorflow/tfjs-node and makes it TensorFlow.js's backend. With `searchSetup` the place where
 * `npm run setup:tensorflow` installs counts too: only when the backend was asked for by name, so that a set-up checkout goes on
 * as before otherwise.
 * @throws TensorError when neither is installed, or the one that is does not start.
 */
export async function loadTfjsNode(searchSetup: boolean): Promise<TfModule> {
  const nodeModule = globalThis.process?.getBuiltinModule?.('node:module');
  if (nodeModule === undefined) throw new TensorError('the tensorflow backend needs Node');
  const require = nodeModule.createRequire(import.meta.url);
  const setup = nodeModule.createRequire(new URL('../../node_modules/.tensorflow/package.json', import.meta.url));
  const found = locate(require) ?? (searchSetup ? locate(setup) : undefined);
  if (found === undefined) {
    throw new TensorError(
      'neither @tensorflow/tfjs-node nor @tensorflow/tfjs-node-gpu is installed; in a checkout, `npm run setup:tensorflow` builds the former',
    );
  }
  const tf = await loadTf();
  // Read by the native library while it loads: only errors on stderr.
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '3';
  // Removed in Node 23; the addon's JavaScript calls it.
  const util = require('node:util') as { isNullOrUndefined?: (v: unknown) => boolean };
  util.isNullOrUndefined ??= (v) => v === null || v === undefined;
  try {
    require(found);
  } catch (error) {
    throw new TensorError(`${found} is installed but does not load: ${String(error)}`, { cause: error });
  }
  if (!(await tf.setBackend('tensorflow'))) throw new TensorError(`${found} is installed but did not start`);
  return tf;
}

/** The path of the first of the two packages that resolves. */
function locate(require: NodeJS.Require): string | undefined {
  for (const id of PACKAGES) {
    try {
      return require.resolve(id);
    } catch {
      // Not this one.
    }
  }
  return undefined;
}
