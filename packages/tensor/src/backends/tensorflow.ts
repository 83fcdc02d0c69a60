/** @file The native TensorFlow backend: used when @tensorflow/tfjs-node or -gpu is installed. */
import { InvariantError, TensorError } from '../errors.ts';
import { sameShape } from '../shape.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor, DeviceUpdate } from './backend.ts';
import { NativeOps } from './tf-native.ts';
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

/** What the engine would call; called directly, because its bookkeeping costs as much as a small kernel. */
type KernelFunc = (call: { inputs: Record<string, TfTensor>; attrs: object; backend: object }) => TfTensor;

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
  private readonly native: NativeOps;
  /** By `dataId`. */
  private readonly tensors = new WeakMap<object, TfTensor>();
  private readonly kernels = new Map<string, KernelFunc | undefined>();
  /** Those whose memory may be that of the typed array they were made of. */
  private readonly uploads = new WeakSet<TfTensor>();

  constructor(tf: TfModule) {
    this.tf = tf;
    this.native = new NativeOps(tf);
    this.kernels.set('ReluGrad', ({ inputs }) =>
      this.native.reluGrad(inputs['dy'] as TfTensor, inputs['y'] as TfTensor),
    );
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const own = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
    const at = [own.buffer, own.byteOffset, own.byteLength / BYTES[dtype]] as const;
    const values =
      dtype === 'float32' ? new Float32Array(...at) : dtype === 'int32' ? new Int32Array(...at) : new Uint8Array(...at);
    const t = this.tf.engine().makeTensor(values, [values.length], dtype);
    this.uploads.add(t);
    return this.own(t);
  }

  view(): undefined {
    return undefined;
  }

  renew(): never {
    throw new InvariantError('the memory of the tensorflow backend cannot be addressed');
  }

  download(buffer: DeviceBuffer): Uint8Array {
    const t = this.get(buffer);
    const values = t.dataSync();
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    // Reading an upload may give its source back.
    return this.uploads.has(t) ? bytes.slice() : bytes;
  }

  free(buffer: DeviceBuffer): void {
    this.get(buffer).dispose();
  }

  has(kernel: string): boolean {
    return this.find(kernel) !== undefined;
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const fn = this.find(kernel);
    if (fn === undefined) throw new TensorError(`the tensorflow backend has no kernel ${kernel}`);
    const shaped: Record<string, TfTensor> = {};
    for (const name in inputs) shaped[name] = this.shaped(inputs[name] as DeviceTensor);
    return this.own(fn({ inputs: shaped, attrs, backend: this.tf.backend() }));
  }

  update(update: DeviceUpdate, targets: readonly DeviceTensor[], gradient: DeviceTensor): void {
    const pull = this.shaped(gradient);
    const before = targets.map((target) => {
      const t = this.shaped(target);
      if (!this.uploads.has(t)) return t;
      // Changing it in place would change the program's array.
      const copy = this.native.deepCopy(t);
      this.replace(target.buffer, t, copy);
      return copy;
    });
    const { tensors, failed } = this.native.update(update, before, pull);
    targets.forEach((target, i) => this.tensors.set(target.buffer.dataId, tensors[i] as TfTensor));
    if (failed !== undefined) throw failed as Error;
  }

  /**
   * The tensor with this shape. A native handle has a shape of its own, and another one takes a Reshape, which shares the memory: the
   * latest shape is kept, because most buffers are read with one shape for good.
   */
  private shaped({ buffer, shape }: DeviceTensor): TfTensor {
    const t = this.get(buffer);
    if (sameShape(t.shape, shape)) return t;
    const reshape = this.find('Reshape') as KernelFunc;
    const view = reshape({ inputs: { x: t }, attrs: { shape }, backend: this.tf.backend() });
    this.tf.keep(view);
    if (this.uploads.has(t)) this.uploads.add(view);
    this.replace(buffer, t, view);
    return view;
  }

  private replace(buffer: DeviceBuffer, before: TfTensor, after: TfTensor): void {
    this.tensors.set(buffer.dataId, after);
    before.dispose();
  }

  private find(kernel: string): KernelFunc | undefined {
    if (this.kernels.has(kernel)) return this.kernels.get(kernel);
    const fn = this.tf.getKernel(kernel, 'tensorflow')?.kernelFunc as unknown as KernelFunc | undefined;
    this.kernels.set(kernel, fn);
    return fn;
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
