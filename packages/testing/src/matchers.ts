/** @file Vitest matchers for tensors and promises; register with `expect.extend(matchers)`. */
import type {} from 'vitest';

declare module 'vitest' {
  // The type parameter has to be the one Vitest declares.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  interface Matchers<T = any> {
    /** Same shape and values that are close: `|a - b| <= atol + rtol * |b|`. */
    toBeAllclose(expected: TensorLike | NestedNumbers, options?: Closeness): T;
    /** The promise settles, either way, within so many milliseconds. */
    toSettleWithin(ms: number): Promise<T>;
  }
}

/** What a matcher sees of a tensor: its shape and its values in order. */
export interface TensorLike {
  readonly shape: readonly number[];
  readonly dtype?: string;
  dataSync(): ArrayLike<number | bigint>;
}

/** How close is close: `|a - b| <= atol + rtol * |b|`, as NumPy has it. */
export interface Closeness {
  /** @default 1e-5 */
  readonly rtol?: number;
  /** @default 1e-8 */
  readonly atol?: number;
  /** Whether NaN equals NaN. @default true */
  readonly equalNan?: boolean;
}

/** Nested lists of numbers. */
export type NestedNumbers = number | bigint | boolean | readonly NestedNumbers[];

interface MatcherResult {
  readonly pass: boolean;
  readonly message: () => string;
}

/** The matchers. */
export const matchers = {
  /** The tensor (or nested list) has the shape of the expected one and values close to its. */
  toBeAllclose(
    received: TensorLike | NestedNumbers,
    expected: TensorLike | NestedNumbers,
    options: Closeness = {},
  ): MatcherResult {
    const a = valuesOf(received);
    const b = valuesOf(expected);
    const difference = firstDifference(a, b, options);
    return {
      pass: difference === undefined,
      message: () => difference ?? `expected tensors of shape [${a.shape.join()}] to differ, but all values are close`,
    };
  },

  /** The promise settles, either way, within the time. */
  async toSettleWithin(received: PromiseLike<unknown>, ms: number): Promise<MatcherResult> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => (timer = setTimeout(() => resolve('late'), ms)));
    const settled = Promise.resolve(received).then(
      () => 'fulfilled' as const,
      () => 'rejected' as const,
    );
    const outcome = await Promise.race([settled, late]);
    clearTimeout(timer);
    return {
      pass: outcome !== 'late',
      message: () =>
        outcome === 'late'
          ? `the promise was still pending after ${ms} ms`
          : `the promise was ${outcome} within ${ms} ms`,
    };
  },
};

interface Values {
  readonly shape: readonly number[];
  readonly flat: number[];
}

function valuesOf(value: TensorLike | NestedNumbers): Values {
  if (typeof value === 'object' && 'dataSync' in value)
    return { shape: value.shape, flat: Array.from(value.dataSync(), Number) };
  const shape: number[] = [];
  const flat: number[] = [];
  const walk = (item: NestedNumbers, depth: number): void => {
    if (typeof item !== 'object') {
      if (depth !== shape.length) throw new TypeError('the list is ragged');
      flat.push(Number(item));
      return;
    }
    if (flat.length === 0 && shape.length === depth) shape.push(item.length);
    if (shape[depth] !== item.length) throw new TypeError('the list is ragged');
    for (const inner of item) walk(inner, depth + 1);
  };
  walk(value, 0);
  return { shape, flat };
}

function firstDifference(a: Values, b: Values, options: Closeness): string | undefined {
  const { rtol = 1e-5, atol = 1e-8, equalNan = true } = options;
  if (a.shape.join() !== b.shape.join()) return `shape [${a.shape.join()}] is not [${b.shape.join()}]`;
  let worst = -1;
  let count = 0;
  for (let i = 0; i < b.flat.length; i++) {
    const x = a.flat[i] as number;
    const y = b.flat[i] as number;
    const close =
      Number.isNaN(x) || Number.isNaN(y) ? equalNan && Number.isNaN(x) && Number.isNaN(y) : isClose(x, y, rtol, atol);
    if (close) continue;
    count++;
    if (worst < 0 || Math.abs(x - y) > Math.abs((a.flat[worst] as number) - (b.flat[worst] as number))) worst = i;
  }
  if (count === 0) return undefined;
  const at = position(worst, b.shape);
  return `${count} of ${b.flat.length} values differ; at [${at}] ${String(a.flat[worst])} is not close to ${String(b.flat[worst])}`;
}

function isClose(x: number, y: number, rtol: number, atol: number): boolean {
  return x === y || (Number.isFinite(x) && Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y));
}

function position(index: number, shape: readonly number[]): string {
  const out: number[] = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    out.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return out.join();
}
