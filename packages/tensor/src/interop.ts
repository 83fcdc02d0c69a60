/** @file To and from TensorFlow.js: single tensors, and whole differentiable functions. */
import { checkFunction, kindOf } from './given.ts';
import { ambient } from './ambient.ts';
import { currentBackend } from './backends/current.ts';
import { tf, type TfModule, type TfTensor } from './backends/tfjs.ts';
import { provideGradients } from './backends/tf-gradients.ts';
import { customFunction } from './autograd/custom-function.ts';
import { decode, type DType } from './dtype.ts';
import { DTypeError } from './errors.ts';
import { fromArray, readArray } from './host.ts';
import type { Tensor } from './tensor.ts';

const INT32 = 2 ** 31;
/** The dtypes both libraries have. */
const SHARED = ['float32', 'int32', 'bool'] as const;

/** TensorFlow.js, with this process's backend as its own: which one computes must not depend on what ran before. */
function library(): TfModule {
  currentBackend();
  return tf();
}

/** A TensorFlow.js tensor with a copy of the elements. The caller disposes it. */
export function toTf(t: Tensor): TfTensor {
  const lib = library();
  const dense = t.sparse === undefined ? t : t.toDense();
  const array = readArray(dense);
  const shape = [...t.shape];
  if (t.dtype === 'complex64') {
    const pairs = array as Float32Array;
    const part = (k: number): Float32Array =>
      Float32Array.from({ length: t.size }, (_, i) => pairs[2 * i + k] as number);
    return lib.complex(lib.tensor(part(0), shape), lib.tensor(part(1), shape));
  }
  const values = decode(array, t.dtype);
  if (t.dtype === 'bool') return lib.tensor(new Uint8Array(values), shape, 'bool');
  if (t.dtype === 'float32' || t.dtype === 'float64' || t.dtype === 'float16' || t.dtype === 'bfloat16') {
    return lib.tensor(new Float32Array(values), shape, 'float32');
  }
  if (values.some((v) => v < -INT32 || v >= INT32)) {
    throw new DTypeError('TensorFlow.js has no int64; an element does not fit int32');
  }
  return lib.tensor(new Int32Array(values), shape, 'int32');
}

/** A copy of a TensorFlow.js tensor, which stays the caller's. */
export function fromTf(t: TfTensor): Tensor {
  if (typeof (t as TfTensor | null | undefined)?.dataSync !== 'function')
    throw new TypeError(`fromTf() takes a TensorFlow.js tensor, got ${kindOf(t)}`);
  if (t.dtype === 'complex64') return fromArray(Float32Array.from(t.dataSync()), 'complex64', [...t.shape]);
  const dtype: DType | undefined = SHARED.find((name) => name === t.dtype);
  if (dtype === undefined) throw new DTypeError(`fromTf: no dtype for '${t.dtype}'`);
  const values: Float32Array | Int32Array | Uint8Array = t.dataSync<'float32' | 'int32' | 'bool'>();
  return fromArray(values.slice(), dtype, [...t.shape]);
}

type TfFunction = (...inputs: TfTensor[]) => TfTensor;

/**
 * Any differentiable TensorFlow.js code as a function of Tensors. `fn` must be synchronous and pure: the backward pass runs it again
 * under TensorFlow.js's own tape. Higher derivatives work as far as TensorFlow.js has them.
 */
export function lift(fn: TfFunction): (...inputs: Tensor[]) => Tensor {
  checkFunction('lift', fn);
  return customFunction({
    forward(ctx, ...inputs) {
      ctx.saveForBackward(...inputs);
      return run(fn, inputs);
    },
    backward(ctx, grad) {
      const inputs = ctx.saved;
      if (ambient().gradMode) {
        return inputs.map((_, i) =>
          ctx.needsInputGrad[i] === true ? lift((dy, ...xs) => vjp(fn, xs, dy)[i] as TfTensor)(grad, ...inputs) : null,
        );
      }
      return pull(fn, inputs, grad).map((g, i) => (ctx.needsInputGrad[i] === true ? g : null));
    },
  });
}

/**
 * Runs TensorFlow.js code; where its backend has no kernel for it (wasm lacks several that training needs), again on TensorFlow.js's
 * cpu backend, which has them all.
 */
function onCapableBackend<T>(fn: () => T): T {
  const lib = library();
  const name = lib.getBackend();
  try {
    return fn();
  } catch (error) {
    if (name === 'cpu' || !(error instanceof Error) || !/not registered for backend/.test(error.message)) throw error;
  }
  // Between started backends the change is made at once; the promises have nothing to say.
  void lib.setBackend('cpu');
  try {
    return fn();
  } finally {
    void lib.setBackend(name);
  }
}

function run(fn: TfFunction, inputs: readonly Tensor[]): Tensor {
  const lib = library();
  const out = onCapableBackend(() => lib.tidy(() => fn(...inputs.map((t) => toTf(t)))));
  try {
    return fromTf(out);
  } finally {
    out.dispose();
  }
}

/** The gradients of `fn` as TensorFlow.js tensors: zeros for inputs it does not depend on. */
function vjp(fn: TfFunction, xs: TfTensor[], dy: TfTensor): TfTensor[] {
  const lib = library();
  provideGradients();
  // Whole numbers have no gradient, and kernels that would give them one throw.
  const floats = xs.filter((x) => x.dtype === 'float32');
  const { value, grads } = lib.engine().gradients(() => fn(...xs), floats, dy, true);
  value.dispose();
  return xs.map((x) => grads[floats.indexOf(x)] ?? lib.zerosLike(x));
}

function pull(fn: TfFunction, inputs: readonly Tensor[], grad: Tensor): Tensor[] {
  const lib = library();
  const grads = onCapableBackend(() =>
    lib.tidy(() =>
      vjp(
        fn,
        inputs.map((t) => toTf(t)),
        toTf(grad),
      ),
    ),
  );
  try {
    return grads.map((g) => fromTf(g));
  } finally {
    for (const g of grads) g.dispose();
  }
}
