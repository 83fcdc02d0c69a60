/** @file Tensors as the golden files hold them, and how close to PyTorch's an answer has to be. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { tensor, type DType, type Tensor } from '../src/index.ts';

export interface Packed {
  dtype: DType;
  shape: number[];
  data: (number | boolean | string)[];
  /** By how much PyTorch's own result misses its float64, at worst: near a cancellation no closer agreement means anything. */
  error?: number;
  /** The same of single elements, by index: of half precision, whose tails would otherwise count for nothing. */
  errors?: Record<string, number>;
  /** Results in float64, by index, where PyTorch's own overflowed on the way: ours may be either. */
  rescued?: Record<string, number>;
}

export const load = <T>(file: string): T => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')) as T;

export const words = { nan: NaN, inf: Infinity, '-inf': -Infinity };
export const number = (v: number | boolean | string): number => (typeof v === 'string' ? words[v as 'nan'] : Number(v));

export function unpack(p: Packed, requiresGrad = false): Tensor {
  const float = p.dtype.includes('float');
  const values = p.dtype === 'int64' ? BigInt64Array.from(p.data, (v) => BigInt(v)) : Float64Array.from(p.data, number);
  return tensor(values, { dtype: p.dtype, shape: p.shape, requiresGrad: requiresGrad && float });
}

/** One step of the grid of half precision; 1e-6 of each value else, 1e-5 for sums and products of many terms. */
const GRID: Partial<Record<DType, number>> = { float16: 1e-3, bfloat16: 8e-3 };

/** Two steps of the smallest numbers. */
const SMALLEST: Partial<Record<DType, number>> = { float16: 2 ** -23 };

const SMALLEST_NORMAL = 2 ** -126;

/** Each element within `rtol` of PyTorch's, or within PyTorch's own error. */
export function expectClose(got: Tensor, wanted: Packed, what: string, rtol = 1e-6): void {
  expect(got.dtype, `${what}: dtype`).toBe(wanted.dtype);
  expect([...got.shape], `${what}: shape`).toEqual(wanted.shape);
  const tolerance = GRID[wanted.dtype] ?? rtol;
  if (wanted.dtype === 'int64') {
    expect([...(got.dataSync() as BigInt64Array)], what).toEqual(wanted.data.map((v) => BigInt(v)));
    return;
  }
  const values = got.to('float64').toDense().dataSync();
  const wrong: string[] = [];
  wanted.data.map(number).forEach((w, i) => {
    const v = values[i] as number;
    if (Object.is(v, w) || v === w) return;
    const rescued = wanted.rescued?.[i];
    if (rescued !== undefined && Math.abs(v - rescued) <= tolerance * Math.abs(rescued) + SMALLEST_NORMAL) return;
    // Where a dtype has no more than a few bits left, its last ones count as equal.
    const room =
      tolerance * Math.abs(w) + (wanted.errors?.[i] ?? wanted.error ?? 0) + (SMALLEST[wanted.dtype] ?? 3e-45);
    if (!(Math.abs(v - w) <= room) || !Number.isFinite(w)) wrong.push(`[${i}]: ${v} for ${w}`);
  });
  expect(wrong, what).toEqual([]);
}
