/** @file The program of the thread that owns the WebGPU device: WebGPU reads its memory asynchronously only, and operations are synchronous. */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { workerData } from 'node:worker_threads';
import type * as Tfjs from '@tensorflow/tfjs-core';
import type { DeviceDType } from './backend.ts';
import type { Answer, Command, Started, WebgpuThreadData } from './webgpu-commands.ts';

/** What this thread uses of the package `webgpu`, whose own types may be absent: it is optional. */
interface Dawn {
  readonly create: (options: readonly string[]) => { requestAdapter(): Promise<Adapter | null> };
  /** The classes that browsers have. */
  readonly globals: object;
}

interface Adapter {
  readonly info?: { readonly vendor?: string; readonly device?: string; readonly description?: string };
}

type Run = Extract<Command, { op: 'run' }>;

const { port, signal, base } = workerData as WebgpuThreadData;

/** By the ids of the asker. A kernel that fails leaves its error in place of its result; who reads that gets it. */
const tensors = new Map<number, Tfjs.Tensor | Error>();

open().then(
  ({ tf, adapter }) => {
    port.on('message', (command: Command) => serve(tf, command));
    answer({ adapter });
  },
  (error: unknown) => answer({ error: asError(error).message }),
);

async function open(): Promise<{ tf: typeof Tfjs; adapter: string }> {
  const lookUp = createRequire(base);
  const missing = ['webgpu', '@tensorflow/tfjs-backend-webgpu'].filter((name) => !isInstalled(lookUp, name));
  if (missing.length > 0) throw new Error(`not installed: ${missing.join(', ')}`);
  const { create, globals } = (await import(pathToFileURL(lookUp.resolve('webgpu')).href)) as Dawn;
  Object.assign(globalThis, globals);
  const gpu = create([]);
  const adapter = await gpu.requestAdapter();
  if (adapter === null) {
    throw new Error(
      'no adapter: this machine has no graphics driver that WebGPU accepts (on Linux a Vulkan driver; VK_ICD_FILENAMES can name one)',
    );
  }
  Object.defineProperty(globalThis, 'navigator', { value: { gpu }, configurable: true });
  // TensorFlow.js looks for what a page has.
  globalThis.window ??= globalThis as typeof window;
  const tf = lookUp('@tensorflow/tfjs-core') as typeof Tfjs;
  lookUp('@tensorflow/tfjs-backend-webgpu');
  if (!(await tf.setBackend('webgpu'))) throw new Error('TensorFlow.js could not use the adapter');
  await tf.ready();
  const { vendor, device, description } = adapter.info ?? {};
  return { tf, adapter: [vendor, device, description].filter(Boolean).join(' ') };
}

function isInstalled(lookUp: NodeJS.Require, name: string): boolean {
  try {
    lookUp.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** Only `download` is answered. */
function serve(tf: typeof Tfjs, command: Command): void {
  if (command.op === 'download') return void download(command.id);
  try {
    switch (command.op) {
      case 'upload':
        return void tensors.set(command.id, upload(tf, command.dtype, command.bytes));
      case 'run':
        return void tensors.set(command.id, run(tf, command));
      case 'free':
        return free(command.id);
    }
  } catch (error) {
    tensors.set(command.id, asError(error));
  }
}

function upload(tf: typeof Tfjs, dtype: DeviceDType, bytes: Uint8Array): Tfjs.Tensor {
  const values = arrayOf(dtype, bytes);
  return tf.engine().makeTensor(values, [values.length], dtype);
}

/** Tensors have the shape that they were made with; the kernel sees them in that of the command. */
function run(tf: typeof Tfjs, { kernel, inputs, attrs }: Run): Tfjs.Tensor {
  const engine = tf.engine();
  const views: Record<string, Tfjs.Tensor> = {};
  try {
    for (const [name, [input, shape]] of Object.entries(inputs))
      views[name] = engine.runKernel('Reshape', { x: get(input) }, { shape: [...shape] });
    return tf.keep(engine.runKernel<Tfjs.Tensor>(kernel, views, attrs as Tfjs.NamedAttrMap));
  } finally {
    for (const view of Object.values(views)) view.dispose();
  }
}

function free(id: number): void {
  const t = tensors.get(id);
  tensors.delete(id);
  if (t !== undefined && !(t instanceof Error)) t.dispose();
}

async function download(id: number): Promise<void> {
  try {
    const values = (await get(id).data()).slice();
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    answer({ bytes }, [bytes.buffer]);
  } catch (error) {
    answer({ error: asError(error).message });
  }
}

function get(id: number): Tfjs.Tensor {
  const t = tensors.get(id);
  if (t === undefined) throw new Error('device memory was freed');
  if (t instanceof Error) throw t;
  return t;
}

function arrayOf(dtype: DeviceDType, bytes: Uint8Array): Float32Array | Int32Array | Uint8Array {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'float32') return new Float32Array(buffer, byteOffset, byteLength / 4);
  if (dtype === 'int32') return new Int32Array(buffer, byteOffset, byteLength / 4);
  return bytes;
}

/** Raises the signal too: the main thread sleeps on it. */
function answer(value: Started | Answer, transfer: ArrayBuffer[] = []): void {
  port.postMessage(value, transfer);
  Atomics.add(signal, 0, 1);
  Atomics.notify(signal, 0);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
