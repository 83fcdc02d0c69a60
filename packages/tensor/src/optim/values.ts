/** @file Parameters, gradients and accumulators as the plain arrays that updates work on. */
import { sweep } from '../scope.ts';
import type { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';

/** The arrays an update works on: float64 for parameters of that type, else float32. Complex elements are pairs. */
export type Values = Float32Array | Float64Array;

/** The dtype in which a parameter is updated and its accumulators are kept. */
export type WorkDType = 'float32' | 'float64' | 'complex64';

export function workDType(param: Tensor): WorkDType {
  const { dtype } = param;
  return dtype === 'float64' || dtype === 'complex64' ? dtype : 'float32';
}

/** Numbers an element of a parameter consists of. */
export function lanesOf(param: Tensor): 1 | 2 {
  return param.dtype === 'complex64' ? 2 : 1;
}

/** A zeroed accumulator for `param`. */
export function zeroValues(param: Tensor): Values {
  return new arrayOf[workDType(param)](param.size * lanesOf(param));
}

/** An accumulator of `param`, in host memory, to be changed. */
export function openValues(slot: Storage, param: Tensor): Values {
  const bytes = slot.mutate();
  return new arrayOf[workDType(param)](bytes.buffer as ArrayBuffer, bytes.byteOffset, param.size * lanesOf(param));
}

const arrayOf = { float32: Float32Array, float64: Float64Array, complex64: Float32Array } as const;

/** Gives `fn` the parameter's own memory when it is contiguous and of a type updates work in, else a copy that is written back. */
export function withValues(param: Tensor, fn: (values: Values) => void): void {
  const dtype = workDType(param);
  if (param.dtype === dtype && param.isContiguous) {
    fn(arrayAt(param, param.storage.mutate(), dtype));
    return;
  }
  const copy = sweep(() => param.detach().to(dtype).clone());
  withValues(copy, fn);
  param.copy_(copy);
  copy.dispose();
}

/** The gradient, contiguous and in the type its parameter is updated in. The caller disposes it. */
export function plainValues(grad: Tensor, dtype: WorkDType): Tensor {
  if (grad.dtype === dtype && grad.isContiguous) return grad.detach();
  return sweep(() => grad.detach().to(dtype).contiguous());
}

/**
 * The values where they lie; to be read only. Taken after the parameter's own memory: making a gradient plain may grow the device's
 * memory, and that moves every view of it.
 */
export function valuesOf(dense: Tensor): Values {
  return arrayAt(dense, dense.storage.peek(), dense.dtype as WorkDType);
}

function arrayAt(t: Tensor, bytes: Uint8Array, dtype: WorkDType): Values {
  const make = arrayOf[dtype];
  const lanes = lanesOf(t);
  const start = bytes.byteOffset + t.offset * lanes * make.BYTES_PER_ELEMENT;
  return new make(bytes.buffer as ArrayBuffer, start, t.size * lanes);
}
