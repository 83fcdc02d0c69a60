/** @file Training that should go on for ever, and what must not grow while it does. */
import { tf } from '../src/backends/tfjs.ts';
import { collectGarbage, deviceBytes } from '../src/device-memory.ts';
import { backendName, crossEntropy, manualSeed, nn, optim, randint, randn } from '../src/index.ts';
import { storageCounts } from '../src/storage.ts';

/** What is held at one moment, after garbage was collected. */
export interface Held {
  /** Storages with their bytes, and their owners: tensors and saved values. */
  readonly storages: number;
  readonly owners: number;
  readonly bytes: number;
  /** Bytes on the device. */
  readonly deviceBytes: number;
  /** Handles of the library below: TensorFlow.js's data ids on wasm and blas, native tensors on tensorflow. */
  readonly handles: number;
  /** The WebAssembly heap, which never shrinks. */
  readonly heapBytes: number;
  /** The process's resident memory. */
  readonly rss: number;
}

/** Longer than small memory stays unknown to the finaliser. */
const GROWN_MS = 60;

/** Collects garbage, lets finalisers run, and counts. */
export async function held(): Promise<Held> {
  await new Promise<void>((resolve) => setTimeout(resolve, GROWN_MS));
  for (let turn = 0; turn < 4; turn++) {
    collectGarbage();
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  const { storages, refs, bytes } = storageCounts();
  const { handles, heapBytes } = below();
  return {
    storages,
    owners: refs,
    bytes,
    deviceBytes: deviceBytes(),
    handles,
    heapBytes,
    rss: process.memoryUsage.rss(),
  };
}

function below(): { handles: number; heapBytes: number } {
  const of = (name: string): object | undefined => tf().engine().registry[name];
  const native = of('tensorflow') as { binding?: { getNumOfTensors(): number } } | undefined;
  const heap = of('wasm') as { numDataIds(): number; wasm: { HEAPU8: Uint8Array } } | undefined;
  const name = backendName();
  if (name === 'cpu' || name === 'webgpu') return { handles: 0, heapBytes: 0 };
  return {
    handles: (native?.binding?.getNumOfTensors() ?? 0) + (heap?.numDataIds() ?? 0),
    heapBytes: heap?.wasm.HEAPU8.length ?? 0,
  };
}

/**
 * A classifier whose matrices and activations are large enough for the kernels of every backend, trained by Adam. Tensors are left to
 * the garbage collector, as in a program that disposes nothing. The event loop turns every `pause` steps.
 */
export function trainer(): (steps: number, pause?: number) => Promise<number> {
  manualSeed(1);
  const hidden = new nn.Linear(64, 128);
  const out = new nn.Linear(128, 10);
  const optimizer = new optim.Adam([...hidden.parameters(), ...out.parameters()], { lr: 1e-4 });
  const [x, y] = [randn([64, 64]), randint(0, 10, [64])];
  return async (steps, pause = 50) => {
    let last = 0;
    for (let step = 1; step <= steps; step++) {
      optimizer.zeroGrad();
      const loss = crossEntropy(out.forward(hidden.forward(x).relu()), y);
      loss.backward();
      optimizer.step();
      if (step % pause === 0) await new Promise<void>((resolve) => setImmediate(resolve));
      if (step === steps) last = loss.item();
    }
    return last;
  };
}
