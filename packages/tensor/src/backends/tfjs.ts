/** @file Loads TensorFlow.js when the first thing needs it; everything that touches it goes through here. */
import type * as tfjs from '@tensorflow/tfjs-core';
import { TensorError } from '../errors.ts';
import { here } from '../here.ts';

export type TfModule = typeof tfjs;
/** A tensor of TensorFlow.js. */
export type TfTensor = tfjs.Tensor;
export type TfInfo = tfjs.TensorInfo;

let core: TfModule | undefined;
let cpuKernels = false;

/** As much of Node's `require` as is used: who has no types of Node can use this package's. */
export interface Require {
  (id: string): unknown;
  resolve(id: string): string;
}

/**
 * Loads packages without waiting, as Node can: operations are synchronous, and what computes them must not depend on when a file was
 * read. Undefined in browsers.
 */
export function requireHere(): Require | undefined {
  const nodeModule = globalThis.process?.getBuiltinModule?.('node:module');
  return nodeModule === undefined || here === undefined ? undefined : nodeModule.createRequire(here);
}

/** TensorFlow.js without any backend. @throws TensorError where it can only be loaded by waiting and was not. */
export function tfCore(): TfModule {
  if (core !== undefined) return core;
  const found = attempt('@tensorflow/tfjs-core') as TfModule | undefined;
  if (found === undefined) throw new TensorError(NOT_AT_ONCE);
  return (core = found);
}

const NOT_AT_ONCE =
  "TensorFlow.js cannot be loaded at once here, as in browsers and bundles: call `await setBackend('auto')` before";

/** TensorFlow.js with its cpu backend, which `lift` and `toTf` need when no other is there, or lacks a kernel. */
export function tf(): TfModule {
  const lib = tfCore();
  if (!cpuKernels) {
    if (attempt('@tensorflow/tfjs-backend-cpu') === undefined) throw new TensorError(NOT_AT_ONCE);
    cpuKernels = true;
  }
  return lib;
}

/** Loads what `tf` gives, waiting where that is the only way; afterwards `tf` works everywhere. */
export async function loadTf(): Promise<TfModule> {
  try {
    return tf();
  } catch {
    const [lib] = await Promise.all([import('@tensorflow/tfjs-core'), import('@tensorflow/tfjs-backend-cpu')]);
    core = lib;
    cpuKernels = true;
    return lib;
  }
}

/** Whether TensorFlow.js and its kernels can be loaded without waiting. */
export function loadsAtOnce(): boolean {
  return resolves(requireHere(), '@tensorflow/tfjs-backend-wasm');
}

function attempt(id: string): unknown {
  const require = requireHere();
  return resolves(require, id) ? require(id) : undefined;
}

function resolves(require: Require | undefined, id: string): require is Require {
  if (require === undefined) return false;
  try {
    require.resolve(id);
    return true;
  } catch {
    // A bundle far from its packages.
    return false;
  }
}
