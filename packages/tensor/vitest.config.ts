import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { shared } from '../../vitest.shared.ts';

/** Whether native TensorFlow is installed, by npm or by `npm run setup:tensorflow`. */
function hasTensorflow(): boolean {
  const addon = 'node_modules/.tensorflow/node_modules/@tensorflow/tfjs-node/lib/napi-v8/tfjs_binding.node';
  if (existsSync(resolve(import.meta.dirname, addon))) return true;
  const require = createRequire(import.meta.url);
  return ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'].some((id) => {
    try {
      return require.resolve(id) !== '';
    } catch {
      return false;
    }
  });
}

/** Whether the machine has a BLAS library that `koffi` can load. */
function hasBlas(): boolean {
  const load = `require('koffi').load(process.env.BACKWIRE_BLAS || 'libopenblas.so.0')`;
  return spawnSync(process.execPath, ['-e', load], { cwd: import.meta.dirname, stdio: 'ignore' }).status === 0;
}

/**
 * Everything is tested on both backends that need no native code, and on a BLAS library and native TensorFlow where these are installed: the
 * latter by its own products, which it has where there is no BLAS.
 */
const backends = process.env['BACKWIRE_TEST_BACKENDS']?.split(',') ?? [
  'cpu',
  'wasm',
  ...(hasBlas() ? ['blas'] : []),
  ...(hasTensorflow() ? ['tensorflow'] : []),
];

export default shared(import.meta.dirname, {
  projects: backends.map((backend) => ({
    extends: true as const,
    test: {
      name: `tensor-${backend}`,
      env: { BACKWIRE_BACKEND: backend, ...(backend === 'tensorflow' ? { BACKWIRE_BLAS: 'none' } : {}) },
    },
  })),
});
