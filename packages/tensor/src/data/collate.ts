/** @file Makes a batch of samples. */
import { checkList } from '../shape.ts';
import { tensor } from '../creation.ts';
import { stack } from '../ops/stack.ts';
import { Tensor } from '../tensor.ts';

/** What a batch of samples of type T is. */
export type Batch<T> = T extends Tensor
  ? Tensor
  : T extends number | bigint | boolean | ArrayBufferView
    ? Tensor
    : T extends string | Date | null | undefined
      ? T[]
      : T extends object
        ? { -readonly [K in keyof T]: Batch<T[K]> }
        : never;

/**
 * Tensors, and typed arrays, are stacked along a new first dimension; numbers (float32), bigints (int64) and booleans (bool) become a
 * vector; lists and objects are gone through; of all else a batch is a list.
 * @throws TypeError where samples differ in kind, in their keys, or in how long their lists are.
 */
export function defaultCollate<T>(samples: readonly T[]): Batch<T> {
  checkList(samples, 'data.defaultCollate() takes the samples of a batch as a list');
  if (samples.length === 0) throw new TypeError('defaultCollate: there are no samples in the batch');
  return batchOf(samples, 'the sample') as Batch<T>;
}

type Category = 'tensor' | 'array' | 'element' | 'list' | 'record' | 'other';

function categoryOf(value: unknown): Category {
  if (value instanceof Tensor) return 'tensor';
  if (ArrayBuffer.isView(value)) return 'array';
  if (['number', 'bigint', 'boolean'].includes(typeof value)) return 'element';
  if (Array.isArray(value)) return 'list';
  if (typeof value !== 'object' || value === null) return 'other';
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null ? 'record' : 'other';
}

/** `where` is the part of a sample that these are, as errors name it. */
function batchOf(samples: readonly unknown[], where: string): unknown {
  const [first] = samples;
  const category = categoryOf(first);
  const odd = samples.findIndex(
    (one) => categoryOf(one) !== category || (category === 'element' && typeof one !== typeof first),
  );
  if (odd !== -1)
    throw new TypeError(
      `defaultCollate: ${where} is ${shown(first)} in one sample and ${shown(samples[odd])} in another`,
    );
  switch (category) {
    case 'tensor':
      return stack(samples as readonly Tensor[]);
    case 'array':
      return stackArrays(samples as readonly ArrayBufferView[]);
    case 'element':
      return tensor(samples as readonly (number | bigint | boolean)[]);
    case 'list':
      return lists(samples as readonly (readonly unknown[])[], where);
    case 'record':
      return records(samples as readonly Readonly<Record<string, unknown>>[], where);
    case 'other':
      return [...samples];
  }
}

function stackArrays(arrays: readonly ArrayBufferView[]): Tensor {
  const parts = arrays.map((one) => tensor(one));
  try {
    return stack(parts);
  } finally {
    for (const one of parts) one.dispose();
  }
}

function lists(samples: readonly (readonly unknown[])[], where: string): unknown[] {
  const length = samples[0]?.length ?? 0;
  const odd = samples.find((one) => one.length !== length);
  if (odd !== undefined)
    throw new TypeError(
      `defaultCollate: each element in list of batch should be of equal size, but ${where} has ${length} and ${odd.length}`,
    );
  return Array.from({ length }, (_, i) =>
    batchOf(
      samples.map((one) => one[i]),
      `${where}[${i}]`,
    ),
  );
}

function records(samples: readonly Readonly<Record<string, unknown>>[], where: string): Record<string, unknown> {
  const keys = Object.keys(samples[0] ?? {});
  for (const one of samples) {
    const missing = keys.find((key) => !Object.hasOwn(one, key)) ?? Object.keys(one).find((key) => !keys.includes(key));
    if (missing !== undefined) throw new TypeError(`defaultCollate: not every sample has ${where}.${missing}`);
  }
  return Object.fromEntries(
    keys.map((key) => [
      key,
      batchOf(
        samples.map((one) => one[key]),
        `${where}.${key}`,
      ),
    ]),
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  const category = categoryOf(value);
  if (category === 'tensor') return 'a tensor';
  if (category === 'list') return 'a list';
  if (category === 'record') return 'an object';
  return category === 'element' ? `a ${typeof value}` : (value.constructor?.name ?? typeof value);
}
