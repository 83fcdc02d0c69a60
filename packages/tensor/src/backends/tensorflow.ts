/** @file The native TensorFlow backend: used when @tensorflow/tfjs-node or -gpu is installed. */
import { InvariantError, TensorError } from '../errors.ts';
import { sameShape } from '../shape.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor } from './backend.ts';
import type { TfModule, TfTensor } from './tfjs.ts';
import { loadTfjsNode } from './tfjs-node.ts';

let opened: Promise<Backend> | undefined;

/** Loads the native addon; rejects where neither package is installed. `byName`: it was asked for, not just tried. */
export function openTensorflow(byName: boolean): Promise<Backend> {
  const opening = (opened ??= loadTfjsNode(byName).then((tf) => new Tensorflow(tf)));
  // What was not found in passing may be found when asked for.
  opening.catch(() => (opened = undefined));
  return opening;
}

const BYTES: Readonly<Record<DeviceDType, number>> = { float32: 4, int32: 4, bool: 1 };

class Tensorflow implements Backend {
  readonly name = 'tensorflow';
  // Uploads are lazy, and alias the source when its address happens to be aligned.
  readonly aliasesUploads = true;
  readonly worth = {
    elementwise: 8192,
    broadcast: 8192,
    reduce: 8192,
    transpose: 8192,
    gather: Infinity,
    matmul: 16_384,
  };
  readonly fastTransposedMatmul = true;
  private readonly tf: TfModule;
  private readonly tensors = new WeakMap<object, TfTensor>();

  constructor(tf: TfModule) {
    this.tf = tf;
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const own = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
    const at = [own.buffer, own.byteOffset, own.byteLength / BYTES[dtype]] as const;
    const values =
      dtype === 'float32' ? new Float32Array(...at) : dtype === 'int32' ? new Int32Array(...at) : new Uint8Array(...at);
    return this.own(this.tf.engine().makeTensor(values, [values.length], dtype));
  }

  view(): undefined {
    return undefined;
  }

  renew(): never {
    throw new InvariantError('the memory of the tensorflow backend cannot be addressed');
  }

  download(buffer: DeviceBuffer): Uint8Array {
    const values = this.get(buffer).dataSync();
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    // Reading an upload gives its source back, which may be an alias.
    return bytes.slice();
  }

  free(buffer: DeviceBuffer): void {
    this.get(buffer).dispose();
  }

  has(kernel: string): boolean {
    return this.tf.getKernel(kernel, 'tensorflow') !== undefined;
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const engine = this.tf.engine();
    const shaped: Record<string, TfTensor> = {};
    const temporary: TfTensor[] = [];
    try {
      for (const [name, { buffer, shape }] of Object.entries(inputs)) {
        const flat = this.get(buffer);
        if (sameShape(flat.shape, shape)) {
          shaped[name] = flat;
          continue;
        }
        // The native handle has a shape of its own: another one takes a Reshape, which shares the memory.
        const view = engine.runKernel<TfTensor>('Reshape', { x: flat }, { shape: shape as number[] });
        shaped[name] = view;
        temporary.push(view);
      }
      return this.own(engine.runKernel<TfTensor>(kernel, shaped, attrs as never));
    } finally {
      for (const t of temporary) t.dispose();
    }
  }

  private own(t: TfTensor): DeviceBuffer {
    this.tf.keep(t);
    this.tensors.set(t.dataId, t);
    const dtype = t.dtype as DeviceDType;
    return { dataId: t.dataId, dtype, nbytes: t.size * BYTES[dtype] };
  }

  private get(buffer: DeviceBuffer): TfTensor {
    const t = this.tensors.get(buffer.dataId);
    if (t === undefined) throw new TensorError('device memory was freed');
    return t;
  }
}
