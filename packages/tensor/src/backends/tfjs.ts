/** @file Loads TensorFlow.js once; everything that touches it goes through here. */
import type * as tfjs from '@tensorflow/tfjs-core';

export type TfModule = typeof tfjs;
export type TfTensor = tfjs.Tensor;
export type TfInfo = tfjs.TensorInfo;

let loaded: TfModule | undefined;

/** TensorFlow.js with its cpu backend registered, which `lift` and `toTf` need when no other is. */
export async function loadTf(): Promise<TfModule> {
  if (loaded !== undefined) return loaded;
  const [tf] = await Promise.all([import('@tensorflow/tfjs-core'), import('@tensorflow/tfjs-backend-cpu')]);
  loaded = tf;
  return tf;
}

/** The loaded module, for synchronous code. */
export function tf(): TfModule {
  if (loaded === undefined) throw new Error('TensorFlow.js is not loaded');
  return loaded;
}
