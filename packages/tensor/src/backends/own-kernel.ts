/** @file What a kernel of ours on the WebAssembly heap is. */
import { InvariantError } from '../errors.ts';
import { sizeOf } from '../shape.ts';
import type { DeviceTensor } from './backend.ts';
import { blockOf, type Block, type Heap } from './heap.ts';

export type Inputs = Readonly<Record<string, DeviceTensor>>;
export type Attrs = Readonly<Record<string, unknown>>;
/** One kernel: reads its inputs, writes a block of its own. */
export type OwnKernel = (heap: Heap, inputs: Inputs, attrs: Attrs) => Block;

/** @throws InvariantError where a kernel was not given an operand. */
export function input(inputs: Inputs, name: string): DeviceTensor {
  const given = inputs[name];
  if (given === undefined) throw new InvariantError(`a kernel was not given its operand ${name}`);
  return given;
}

/** Where an operand lies on the heap. */
export const at = (t: DeviceTensor): number => blockOf(t.buffer).at;

/** Whether `count` elements of float32 are all finite. */
export function areFinite(heap: Heap, from: number, count: number): boolean {
  const values = new Float32Array(heap.memory.buffer, from, count);
  for (let i = 0; i < count; i++) if (!Number.isFinite(values[i])) return false;
  return true;
}

/**
 * A convolution by `fast`, which passes over the zeros around images, unless these meet what is not finite: that is NaN, and left to `other`.
 * The elements of a gradient of filters show whether a factor was not finite.
 */
export function countingZeros(heap: Heap, inputs: Inputs, name: string, fast: () => Block, other: () => Block): Block {
  if (name === 'Convolve') {
    const filters = input(inputs, 'filters');
    return areFinite(heap, at(filters), sizeOf(filters.shape)) ? fast() : other();
  }
  const found = fast();
  if (name !== 'ConvolveFilter' || areFinite(heap, found.at, found.nbytes >> 2)) return found;
  heap.free(found);
  return other();
}

/** Elements up to the next multiple of 64 bytes, where libraries read and write in place. */
export const whole = (size: number): number => Math.ceil(size / 16) * 16;

/** A number for each name. */
type Numbers<T extends readonly string[]> = { -readonly [I in keyof T]: number };

/** Attributes of a kernel that are numbers, by their names. @throws InvariantError for one that is missing or none. */
export function numbers<const T extends readonly string[]>(attrs: Attrs, names: T): Numbers<T> {
  const values = names.map((name) => {
    const value = attrs[name];
    if (typeof value !== 'number') throw new InvariantError(`a kernel was not given ${name}`);
    return value;
  });
  return values as Numbers<T>;
}

/** What kernels of windows over images take, in their order. */
export const WINDOWS = ['n', 'c', 'h', 'w', 'kh', 'kw', 'sy', 'sx', 'py', 'px', 'dy', 'dx', 'outH', 'outW'] as const;
/** What says how much room `unfold` and `fold` need. */
export const WINDOW_SPACE = WINDOWS.filter((name) => name !== 'c');
