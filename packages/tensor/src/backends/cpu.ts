/** @file The backend without a device: the host loops do everything. */
import { InvariantError } from '../errors.ts';
import type { Backend } from './backend.ts';

const never = (): never => {
  throw new InvariantError('the cpu backend has no device memory');
};

/**
 * TensorFlow.js's own cpu kernels are slower than the host loops at every size (matmul 256: 35 ms against 12 ms), so this backend
 * has none; `lift` and `toTf` still use them.
 */
export const cpuBackend: Backend = {
  name: 'cpu',
  aliasesUploads: false,
  worth: {
    elementwise: Infinity,
    broadcast: Infinity,
    reduce: Infinity,
    transpose: Infinity,
    gather: Infinity,
    matmul: Infinity,
    update: Infinity,
  },
  upload: never,
  view: never,
  renew: never,
  download: never,
  free: never,
  has: () => false,
  run: never,
};
