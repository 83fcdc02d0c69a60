/** @file The native TensorFlow backend: used when @tensorflow/tfjs-node or -gpu is installed. Here is what it does on a GPU. */
import type { Device } from '../device.ts';
import { InvariantError, TensorError } from '../errors.ts';
import { sameShape, type Shape } from '../shape.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor, DeviceUpdate, Worth } from './backend.ts';
import { blasFor } from './blas.ts';
import { NativeOps, type Attribute, type Binding, type Handle } from './tf-native.ts';
import type { Heap } from './heap.ts';
import type { SimdExports } from './simd.ts';
import { TensorflowOnHost, type NativeKernels } from './tensorflow-host.ts';
import { addonProducts } from './tf-addon-products.ts';
import { libraryConvolutions } from './tf-library-convolutions.ts';
import { libraryProducts } from './tf-library-products.ts';
import { TensorflowLibrary } from './tf-library.ts';
import { loadTfjsNode } from './tfjs-node.ts';

const GPU_WORTH: Worth = {
  elementwise: 8192,
  broadcast: 8192,
  reduce: 8192,
  transpose: 8192,
  gather: Infinity,
  matmul: 16_384,
  update: 8192,
};

let opened: Backend | undefined;

/** Loads the native addon. `byName`: it was asked for, not just tried. @throws TensorError where neither package is installed. */
export function openTensorflow(byName: boolean): Backend {
  if (opened !== undefined) return opened;
  const { tf, folder } = loadTfjsNode(byName);
  const { binding } = tf.backend() as unknown as { binding: Binding };
  const ops = new NativeOps(binding);
  // The addon puts every tensor on the first GPU, where it was built for one and finds it.
  if (binding.isUsingGpuDevice?.() === true) return (opened = new TensorflowOnGpu(ops));
  return (opened = onProcessor(folder, ops));
}

/** By the machine's BLAS where there is one: the native library's products are no faster, its calls cost more, and so do its convolutions. */
function onProcessor(folder: string, ops: NativeOps): Backend {
  try {
    return blasFor('tensorflow');
  } catch (error) {
    const { message } = error as Error;
    return new TensorflowOnHost(message, (heap, exports) => kernelsOn(folder, ops, heap, exports));
  }
}

/** Through the library's own interface where it can be called, else through the addon. */
function kernelsOn(folder: string, ops: NativeOps, heap: Heap, exports: SimdExports): NativeKernels {
  const library = TensorflowLibrary.open(folder);
  const multiply = library && libraryProducts(library, heap);
  if (library === undefined || multiply === undefined) {
    const detail = `${folder}, by its addon; with the package koffi its calls cost less`;
    return { multiply: addonProducts(ops, heap), convolutions: (own) => own, detail };
  }
  return {
    multiply,
    convolutions: (own) => libraryConvolutions(library, exports, heap, own),
    detail: library.path,
  };
}

/** Native operations by the names TensorFlow.js has for its kernels, where only the name differs. */
const PLAIN: Readonly<Record<string, string>> = {
  Add: 'AddV2',
  Sub: 'Sub',
  Multiply: 'Mul',
  RealDiv: 'RealDiv',
  Neg: 'Neg',
  Abs: 'Abs',
  Exp: 'Exp',
  Log: 'Log',
  Sqrt: 'Sqrt',
  Rsqrt: 'Rsqrt',
  Square: 'Square',
  Relu: 'Relu',
  ReluGrad: 'ReluGrad',
  Sigmoid: 'Sigmoid',
  Tanh: 'Tanh',
};

/** Memory of the native library. */
class NativeBuffer implements DeviceBuffer {
  readonly dtype: DeviceDType;
  readonly nbytes: number;
  /** What was uploaded and not read yet. */
  pending: Uint8Array | undefined;
  handle: Handle | undefined;
  /** Whether the memory may be that of the bytes it was made of. */
  aliased: boolean;

  constructor(dtype: DeviceDType, nbytes: number, from: Handle | Uint8Array) {
    this.dtype = dtype;
    this.nbytes = nbytes;
    this.aliased = from instanceof Uint8Array;
    this.pending = from instanceof Uint8Array ? from : undefined;
    this.handle = from instanceof Uint8Array ? undefined : from;
  }

  get dataId(): object {
    return this;
  }
}

type Run = (inputs: readonly Handle[], attrs: Readonly<Record<string, unknown>>) => Handle;

export class TensorflowOnGpu implements Backend {
  readonly name = 'tensorflow';
  readonly device: Device = 'gpu:0';
  // Uploads are lazy, and alias the source when its address happens to be aligned.
  readonly aliasesUploads = true;
  readonly worth = GPU_WORTH;
  private readonly ops: NativeOps;
  private readonly kernels: ReadonlyMap<string, Run>;

  constructor(ops: NativeOps) {
    this.ops = ops;
    this.kernels = kernelsOf(ops);
  }

  /** Only noted: the tensor is made with the shape it is first read with. */
  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    return new NativeBuffer(dtype, bytes.byteLength, bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes));
  }

  view(): undefined {
    return undefined;
  }

  renew(): never {
    throw new InvariantError('the memory of the tensorflow backend cannot be addressed');
  }

  download(buffer: DeviceBuffer): Uint8Array {
    const own = buffer as NativeBuffer;
    return own.pending?.slice() ?? this.ops.read(handleOf(own));
  }

  free(buffer: DeviceBuffer): void {
    const own = buffer as NativeBuffer;
    if (own.handle !== undefined) this.ops.free(own.handle);
    own.handle = undefined;
    own.pending = undefined;
  }

  has(kernel: string): boolean {
    return this.kernels.has(kernel);
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const fn = this.kernels.get(kernel);
    if (fn === undefined) throw new TensorError(`the tensorflow backend has no kernel ${kernel}`);
    const list = Object.values(inputs);
    const [first, second] = list as [DeviceTensor, DeviceTensor | undefined];
    let out: Handle;
    if (second !== undefined && second.buffer === first.buffer && !sameShape(first.shape, second.shape)) {
      // One buffer read with two shapes: a buffer keeps one handle only.
      const a = this.shaped(first);
      const b = this.ops.runAlong('Reshape', a, second.shape);
      out = fn([a, b], attrs);
      this.ops.free(b);
    } else {
      out = fn(
        list.map((input) => this.shaped(input)),
        attrs,
      );
    }
    let size = 1;
    for (const n of out.shape) size *= n;
    // All kernels here keep the dtype.
    return new NativeBuffer(first.buffer.dtype, first.buffer.dtype === 'bool' ? size : size * 4, out);
  }

  update(update: DeviceUpdate, targets: readonly DeviceTensor[], gradient: DeviceTensor): void {
    const pull = this.shaped(gradient);
    const before = targets.map((target) => {
      const handle = this.shaped(target);
      const own = target.buffer as NativeBuffer;
      if (!own.aliased) return handle;
      // Changing it in place would change the program's array.
      own.handle = this.ops.run('DeepCopy', [handle]);
      own.aliased = false;
      this.ops.free(handle);
      return own.handle;
    });
    const { after, failed } = this.ops.update(update, before, pull);
    targets.forEach(({ buffer }, i) => ((buffer as NativeBuffer).handle = after[i] as Handle));
    if (failed !== undefined) throw failed as Error;
  }

  /**
   * The tensor with this shape. A native tensor has a shape of its own, and another one takes a Reshape, which shares the memory: the
   * latest is kept, because most buffers are read with one shape for good.
   */
  private shaped({ buffer, shape }: DeviceTensor): Handle {
    const own = buffer as NativeBuffer;
    if (own.pending !== undefined) {
      own.handle = this.ops.make(own.pending, own.dtype, shape);
      own.pending = undefined;
      return own.handle;
    }
    const handle = handleOf(own);
    if (sameShape(handle.shape, shape)) return handle;
    own.handle = this.ops.runAlong('Reshape', handle, shape);
    this.ops.free(handle);
    return own.handle;
  }
}

function handleOf({ handle }: NativeBuffer): Handle {
  if (handle === undefined) throw new TensorError('device memory was freed');
  return handle;
}

function kernelsOf(ops: NativeOps): Map<string, Run> {
  const kernels = new Map<string, Run>();
  for (const [name, op] of Object.entries(PLAIN)) kernels.set(name, (inputs) => ops.run(op, inputs));
  const keep: readonly Attribute[][] = [[], [ops.flag('keep_dims', true)]];
  const transposed = [false, true].map((x) =>
    [false, true].map((y) => [ops.flag('adj_x', x), ops.flag('adj_y', y)] as const),
  );
  kernels.set('BatchMatMul', (inputs, { transposeA, transposeB }) =>
    ops.run('BatchMatMulV2', inputs, transposed[Number(transposeA)]?.[Number(transposeB)]),
  );
  kernels.set('Transpose', ([x], { perm }) => ops.runAlong('Transpose', x as Handle, perm as Shape));
  kernels.set('Sum', ([x], { axis, keepDims }) =>
    ops.runAlong('Sum', x as Handle, axis as Shape, keep[Number(keepDims)]),
  );
  return kernels;
}
