/** @file The one backend of this process: chosen when the module loads, or by `setBackend`. */
import { evictAll } from '../device-memory.ts';
import { TensorError } from '../errors.ts';
import type { Backend, BackendName } from './backend.ts';
import { cpuBackend } from './cpu.ts';
import { openTensorflow } from './tensorflow.ts';
import { loadTf } from './tfjs.ts';
import { openWasm } from './wasm.ts';
import { openWebgpu } from './webgpu.ts';

let backend: Backend = cpuBackend;

/** The device operations run on now. */
export function currentBackend(): Backend {
  return backend;
}

/** The backend's name: 'cpu', 'wasm', 'tensorflow' or 'webgpu'. */
export function backendName(): string {
  return backend.name;
}

const openers: Readonly<Record<BackendName, (byName: boolean) => Promise<Backend>>> = {
  cpu: () => Promise.resolve(cpuBackend),
  wasm: openWasm,
  tensorflow: openTensorflow,
  webgpu: openWebgpu,
};

/**
 * Chooses what computes: 'tensorflow' needs @tensorflow/tfjs-node or -gpu installed, 'webgpu' the packages webgpu and
 * @tensorflow/tfjs-backend-webgpu and an adapter, 'wasm' and 'cpu' are always there; 'auto' takes the first that opens of tensorflow,
 * wasm and cpu. Rejects with the reason, and leaves everything as it was, when the backend cannot be had. Existing tensors stay valid. The module starts with the environment's BACKWIRE_BACKEND, else 'auto'.
 */
export async function setBackend(name: 'auto' | BackendName): Promise<void> {
  if (name !== 'auto') checkName('setBackend', name);
  const next = name === 'auto' ? await openFirst() : await openers[name](true);
  if (next === backend) return;
  evictAll();
  backend = next;
}

function checkName(what: string, name: string): void {
  if (typeof name !== 'string' || !Object.hasOwn(openers, name)) {
    throw new TensorError(`${what} is '${String(name)}'; expected auto, ${Object.keys(openers).join(', ')}`);
  }
}

async function openFirst(): Promise<Backend> {
  for (const name of ['tensorflow', 'wasm'] as const) {
    try {
      return await openers[name](false);
    } catch {
      // Not installed or not startable here: the next one serves.
    }
  }
  return cpuBackend;
}

const asked = globalThis.process?.env?.['BACKWIRE_BACKEND'] ?? 'auto';
if (asked !== 'auto') checkName('BACKWIRE_BACKEND', asked);
// `lift` and `toTf` are synchronous: the library must be there.
await loadTf();
// Top-level await: operations are synchronous and must not change backend, hence rounding, in the middle of a program.
await setBackend(asked as 'auto' | BackendName);
