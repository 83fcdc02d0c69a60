/** @file What the normalising layers share: subtract the mean, divide by the deviation; both ways in double precision. */
import { decode, encode, type NumberArray } from '../dtype.ts';
import { backendFor, runKernel } from './kernels.ts';
import { fromArray, rawPermute, readArray, readPermuted } from '../host.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { each, FLOAT } from './takes.ts';

export interface WhitenAttrs {
  readonly dims: readonly number[];
  readonly eps: number;
}

/** A tensor read line by line, a line being what is normalised together. */
interface Lines {
  readonly order: readonly number[];
  readonly count: number;
  readonly length: number;
}

function linesOf(t: Tensor, dims: readonly number[]): Lines {
  const kept = t.shape.map((_, i) => i).filter((i) => !dims.includes(i));
  const length = sizeOf(dims.map((d) => t.shape[d] as number));
  return { order: [...kept, ...dims], count: sizeOf(kept.map((d) => t.shape[d] as number)), length };
}

const read = (t: Tensor, { order }: Lines): NumberArray => decode(readPermuted(t, order), t.dtype);

/** Values computed line by line, in the shape and order of `like`. */
function write(values: Float64Array, like: Tensor, { order }: Lines): Tensor {
  const shape = order.map((d) => like.shape[d] as number);
  const turned = fromArray(encode(values, like.dtype), like.dtype, shape);
  if (order.every((d, i) => d === i)) return turned;
  const back = rawPermute(
    turned,
    order.map((_, i) => order.indexOf(i)),
  );
  const out = fromArray(readArray(back).slice(), like.dtype, like.shape);
  back.release();
  turned.release();
  return out;
}

/** The mean of a line and 1 / sqrt(variance + eps). */
function statistics(x: NumberArray, from: number, n: number, eps: number): [mean: number, scale: number] {
  let total = 0;
  for (let i = 0; i < n; i++) total += x[from + i] as number;
  const mean = total / n;
  let squares = 0;
  for (let i = 0; i < n; i++) squares += ((x[from + i] as number) - mean) ** 2;
  return [mean, 1 / Math.sqrt(squares / n + eps)];
}

/** By a kernel of the device, where it has one that pays and each line lies in one piece. */
function onDevice(
  kernel: string,
  inputs: Readonly<Record<string, Tensor>>,
  lines: Lines,
  eps: number,
): Tensor | undefined {
  const all = Object.values(inputs);
  const { dtype, shape, size } = all[0] as Tensor;
  if (dtype !== 'float32' || size === 0 || all.some((t) => t.dtype !== dtype)) return undefined;
  if (!lines.order.every((d, i) => d === i)) return undefined;
  const backend = backendFor(kernel, 'reduce', size);
  return backend && runKernel(backend, kernel, inputs, { rows: lines.count, n: lines.length, eps }, 'float32', shape);
}

const whitenOp = defineOp<WhitenAttrs>(['whiten', 'native_layer_norm'], each(FLOAT), ([input], { dims, eps }) => {
  const lines = linesOf(input, dims);
  const computed = onDevice('WhitenRows', { x: input }, lines, eps);
  if (computed !== undefined) return computed;
  const x = read(input, lines);
  const out = new Float64Array(x.length);
  for (let k = 0, from = 0; k < lines.count; k++, from += lines.length) {
    const [mean, scale] = statistics(x, from, lines.length, eps);
    for (let i = 0; i < lines.length; i++) out[from + i] = ((x[from + i] as number) - mean) * scale;
  }
  return write(out, input, lines);
});

/** (t - mean) / sqrt(variance + eps) over `dims`; the variance divides by the number of elements. */
export function whiten(t: Tensor, dims: readonly number[], eps: number): Tensor {
  return apply(whitenOp, [t], { dims, eps });
}

/** The gradient of `whiten` for input `x`; records nothing. */
export function whitenGrad(grad: Tensor, input: Tensor, { dims, eps }: WhitenAttrs): Tensor {
  const lines = linesOf(input, dims);
  const computed = onDevice('WhitenGradRows', { x: input, dy: grad }, lines, eps);
  if (computed !== undefined) return computed;
  const n = lines.length;
  const [x, g] = [read(input, lines), read(grad, lines)];
  const out = new Float64Array(x.length);
  for (let k = 0, from = 0; k < lines.count; k++, from += n) {
    const [mean, scale] = statistics(x, from, n, eps);
    let total = 0;
    let along = 0;
    for (let i = from; i < from + n; i++) {
      total += g[i] as number;
      along += (g[i] as number) * ((x[i] as number) - mean) * scale;
    }
    for (let i = from; i < from + n; i++) {
      const y = ((x[i] as number) - mean) * scale;
      out[i] = scale * ((g[i] as number) - total / n - (y * along) / n);
    }
  }
  return write(out, input, lines);
}
