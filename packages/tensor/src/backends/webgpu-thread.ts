/** @file The program of the thread that owns the WebGPU device. */

/** What the main thread asks for. Ids of tensors are chosen by the asker, so that nothing but `download` needs an answer. */
export type Command =
  | { readonly op: 'upload'; readonly id: number; readonly dtype: string; readonly bytes: Uint8Array }
  | {
      readonly op: 'run';
      readonly id: number;
      readonly kernel: string;
      readonly inputs: Readonly<Record<string, readonly [id: number, shape: readonly number[]]>>;
      readonly attrs: Readonly<Record<string, unknown>>;
    }
  | { readonly op: 'free'; readonly id: number }
  | { readonly op: 'download'; readonly id: number };

/** The first message: what the driver calls itself, or why there is no device. */
export type Started = { readonly adapter: string } | { readonly error: string };

export type Answer = { readonly bytes: Uint8Array } | { readonly error: string };

/** What the thread is started with. */
export interface ThreadData {
  /** Where the packages are looked up from. */
  readonly base: string;
  readonly port: unknown;
  /** Raised and notified with each answer. */
  readonly signal: Int32Array;
}

/**
 * Plain JavaScript for `new Worker(text, { eval: true })`: WebGPU reads its memory asynchronously only, and operations are synchronous,
 * so the device lives in a thread that the main one can wait for. A kernel that fails leaves its error in place of its result; who
 * reads that gets it.
 */
export const WEBGPU_THREAD_SOURCE = `
'use strict';
const { workerData } = require('node:worker_threads');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');
const { port, signal, base } = workerData;

const tensors = new Map();

function answer(value, transfer) {
  port.postMessage(value, transfer);
  Atomics.add(signal, 0, 1);
  Atomics.notify(signal, 0);
}

async function open() {
  const lookUp = createRequire(base);
  const missing = ['webgpu', '@tensorflow/tfjs-backend-webgpu'].filter((name) => {
    try {
      lookUp.resolve(name);
      return false;
    } catch {
      return true;
    }
  });
  if (missing.length > 0) throw new Error('not installed: ' + missing.join(', '));
  const { create, globals } = await import(pathToFileURL(lookUp.resolve('webgpu')).href);
  Object.assign(globalThis, globals);
  const gpu = create([]);
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    throw new Error(
      'no adapter: this machine has no graphics driver that WebGPU accepts (on Linux a Vulkan driver; VK_ICD_FILENAMES can name one)',
    );
  }
  Object.defineProperty(globalThis, 'navigator', { value: { gpu }, configurable: true });
  globalThis.window ??= globalThis;
  const tf = lookUp('@tensorflow/tfjs-core');
  lookUp('@tensorflow/tfjs-backend-webgpu');
  if (!(await tf.setBackend('webgpu'))) throw new Error('TensorFlow.js could not use the adapter');
  await tf.ready();
  return { tf, adapter: [adapter.info?.vendor, adapter.info?.device, adapter.info?.description].filter(Boolean).join(' ') };
}

function arrayOf(dtype, bytes) {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'float32') return new Float32Array(buffer, byteOffset, byteLength / 4);
  if (dtype === 'int32') return new Int32Array(buffer, byteOffset, byteLength / 4);
  return bytes;
}

function get(id) {
  const t = tensors.get(id);
  if (t === undefined) throw new Error('device memory was freed');
  if (t instanceof Error) throw t;
  return t;
}

function serve(tf) {
  const engine = tf.engine();
  const handlers = {
    upload({ id, dtype, bytes }) {
      const values = arrayOf(dtype, bytes);
      tensors.set(id, engine.makeTensor(values, [values.length], dtype));
    },
    run({ id, kernel, inputs, attrs }) {
      const views = [];
      try {
        const shaped = {};
        for (const [name, [input, shape]] of Object.entries(inputs)) {
          const view = engine.runKernel('Reshape', { x: get(input) }, { shape });
          views.push(view);
          shaped[name] = view;
        }
        tensors.set(id, tf.keep(engine.runKernel(kernel, shaped, attrs)));
      } finally {
        for (const view of views) view.dispose();
      }
    },
    free({ id }) {
      const t = tensors.get(id);
      tensors.delete(id);
      if (t !== undefined && !(t instanceof Error)) t.dispose();
    },
  };
  port.on('message', async (command) => {
    if (command.op === 'download') {
      try {
        const values = (await get(command.id).data()).slice();
        const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        answer({ bytes }, [bytes.buffer]);
      } catch (error) {
        answer({ error: String(error && error.message) });
      }
      return;
    }
    try {
      handlers[command.op](command);
    } catch (error) {
      tensors.set(command.id, error instanceof Error ? error : new Error(String(error)));
    }
  });
}

open().then(
  ({ tf, adapter }) => {
    serve(tf);
    answer({ adapter });
  },
  (error) => answer({ error: String(error && error.message) }),
);
`;
