/** @file The WebGPU backend, through the npm package `webgpu` (Dawn) and the kernels of @tensorflow/tfjs-backend-webgpu. */
import type * as Threads from 'node:worker_threads';
import type { MessagePort, Worker } from 'node:worker_threads';
import { InvariantError, TensorError } from '../errors.ts';
import { here } from '../here.ts';
import { limits } from '../limits.ts';
import { broadcastShapes, sizeOf } from '../shape.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor, Worth } from './backend.ts';
import { WEBGPU_THREAD } from '../gen/webgpu-thread.ts';
import type { Answer, Command, Started, WebgpuThreadData } from './webgpu-commands.ts';

/** Going to the thread and back costs far more than small work; element by element the way to the device costs most of all. */
export const WEBGPU_WORTH: Worth = {
  elementwise: 2 ** 20,
  broadcast: 2 ** 20,
  reduce: Infinity,
  transpose: 2 ** 20,
  gather: Infinity,
  matmul: 2 ** 19,
  update: Infinity,
};

let opened: Backend | undefined;

/** Starts the device's thread and waits for it. @throws TensorError with the reason where a package or an adapter is missing. */
export function openWebgpu(): Backend {
  return (opened ??= open());
}

function open(): Backend {
  const threads = globalThis.process?.getBuiltinModule?.('node:worker_threads');
  if (threads === undefined || here === undefined) throw new TensorError('the webgpu backend needs Node');
  const { port1, port2 } = new threads.MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const workerData: WebgpuThreadData = { base: here, port: port2, signal };
  const worker = new threads.Worker(WEBGPU_THREAD, {
    eval: true,
    workerData,
    transferList: [port2],
    execArgv: [],
  });
  // Neither keeps the process alive: answers are waited for.
  worker.unref();
  port1.unref();
  Atomics.wait(signal, 0, 0, limits.deviceStartMs);
  const received = threads.receiveMessageOnPort(port1) as { message: Started } | undefined;
  const started = received?.message ?? { error: `no answer within ${limits.deviceStartMs} ms` };
  if ('error' in started) {
    port1.close();
    void worker.terminate();
    throw new TensorError(`the webgpu backend did not start: ${started.error}`);
  }
  return new Webgpu(threads, worker, port1, signal, started.adapter);
}

/** The shape of each kernel's result: the thread is not asked. */
const RESULTS: Readonly<
  Record<string, (inputs: Readonly<Record<string, DeviceTensor>>, attrs: Readonly<Record<string, unknown>>) => number>
> = {
  ...Object.fromEntries(
    // Functions like exp are left out: WebGPU promises too few digits for them.
    ['Add', 'Sub', 'Multiply', 'RealDiv'].map((kernel) => [
      kernel,
      ({ a, b }: Readonly<Record<string, DeviceTensor>>) =>
        sizeOf(broadcastShapes((a as DeviceTensor).shape, (b as DeviceTensor).shape)),
    ]),
  ),
  Transpose: ({ x }) => sizeOf((x as DeviceTensor).shape),
  BatchMatMul: ({ a, b }, { transposeA, transposeB }) => {
    const [left, right] = [(a as DeviceTensor).shape, (b as DeviceTensor).shape];
    const batch = broadcastShapes(left.slice(0, -2), right.slice(0, -2));
    return sizeOf([
      ...batch,
      left.at(transposeA === true ? -1 : -2) as number,
      right.at(transposeB === true ? -2 : -1) as number,
    ]);
  },
};

const BYTES: Readonly<Record<DeviceDType, number>> = { float32: 4, int32: 4, bool: 1 };

interface Named extends DeviceBuffer {
  readonly dataId: { readonly id: number };
}

class Webgpu implements Backend {
  readonly name = 'webgpu';
  readonly device = 'webgpu:0';
  // Uploads travel to the thread as copies.
  readonly aliasesUploads = false;
  readonly worth = WEBGPU_WORTH;
  /** What the driver calls itself. */
  readonly adapter: string;
  private readonly threads: typeof Threads;
  private readonly worker: Worker;
  private readonly port: MessagePort;
  private readonly signal: Int32Array;
  private ids = 0;

  constructor(threads: typeof Threads, worker: Worker, port: MessagePort, signal: Int32Array, adapter: string) {
    this.threads = threads;
    this.worker = worker;
    this.port = port;
    this.signal = signal;
    this.adapter = adapter;
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const copy = bytes.slice();
    const id = this.ids++;
    this.send({ op: 'upload', id, dtype, bytes: copy }, [copy.buffer]);
    return this.named(id, dtype, copy.byteLength);
  }

  view(): undefined {
    return undefined;
  }

  renew(): never {
    throw new InvariantError('the memory of the webgpu backend cannot be addressed');
  }

  download(buffer: DeviceBuffer): Uint8Array {
    const seen = Atomics.load(this.signal, 0);
    this.send({ op: 'download', id: (buffer as Named).dataId.id });
    // The thread answers every command, but may die with its driver.
    if (Atomics.wait(this.signal, 0, seen, limits.deviceAnswerMs) === 'timed-out') {
      void this.worker.terminate();
      throw new TensorError(`the webgpu device (${this.adapter}) did not answer within ${limits.deviceAnswerMs} ms`);
    }
    const received = this.threads.receiveMessageOnPort(this.port) as { message: Answer } | undefined;
    if (received === undefined) throw new InvariantError('the webgpu thread signalled without an answer');
    const answer = received.message;
    if ('error' in answer) throw new TensorError(`the webgpu device (${this.adapter}) failed: ${answer.error}`);
    return answer.bytes;
  }

  free(buffer: DeviceBuffer): void {
    this.send({ op: 'free', id: (buffer as Named).dataId.id });
  }

  has(kernel: string): boolean {
    return Object.hasOwn(RESULTS, kernel);
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const size = RESULTS[kernel];
    if (size === undefined) throw new TensorError(`the webgpu backend has no kernel ${kernel}`);
    const id = this.ids++;
    const named: Record<string, [number, readonly number[]]> = {};
    let dtype: DeviceDType = 'float32';
    for (const [name, { buffer, shape }] of Object.entries(inputs)) {
      named[name] = [(buffer as Named).dataId.id, shape];
      dtype = buffer.dtype;
    }
    this.send({ op: 'run', id, kernel, inputs: named, attrs });
    return this.named(id, dtype, size(inputs, attrs) * BYTES[dtype]);
  }

  private named(id: number, dtype: DeviceDType, nbytes: number): Named {
    return { dataId: { id }, dtype, nbytes };
  }

  private send(command: Command, transfer: ArrayBuffer[] = []): void {
    this.port.postMessage(command, transfer);
  }
}
