/** @file The gradient of relu as one operation: every network runs it, and a comparison with a choice would read each element thrice. */
import { backendFor, runKernel } from './kernels.ts';
import { decode, encode, type NumberArray } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { each, FLOAT } from './takes.ts';

const thresholdGradOp = defineOp(['thresholdGrad', 'threshold_backward'], each(FLOAT), ([grad, output]) => {
  const { dtype, shape, size } = output;
  if (dtype === 'float32' && grad.dtype === dtype) {
    const backend = backendFor('ReluGrad', 'elementwise', size);
    if (backend !== undefined) return runKernel(backend, 'ReluGrad', { dy: grad, y: output }, {}, dtype, shape);
  }
  const dy = decode(readArray(grad), grad.dtype);
  const values = decode(readArray(output), dtype);
  if (dy instanceof Float32Array) return fromArray(encode(maskedBits(dy, values), dtype), dtype, shape);
  const out = new (dy.constructor as new (n: number) => NumberArray)(size);
  // Written so that NaN lets the gradient through, as in PyTorch.
  for (let i = 0; i < out.length; i++) out[i] = values[i]! <= 0 ? 0 : dy[i]!;
  return fromArray(encode(out, dtype), dtype, shape);
});

/** Through the bits: a branch on signs that nothing predicts would cost four times the rest. */
function maskedBits(dy: Float32Array, values: NumberArray): Float32Array {
  const n = values.length;
  const out = new Int32Array(n);
  const bits = new Int32Array(dy.buffer, dy.byteOffset, n);
  for (let i = 0; i < n; i++) out[i] = bits[i]! & (Number(values[i]! <= 0) - 1);
  return new Float32Array(out.buffer);
}

/** `grad` where `output` is not below or at zero. */
export function thresholdGrad(grad: Tensor, output: Tensor): Tensor {
  return apply(thresholdGradOp, [grad, output], undefined);
}
