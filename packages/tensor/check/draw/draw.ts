/** @file What operations draw their arguments with: shapes, tensors in any layout, numbers, and now and then what does not fit. */
import type { DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { DTYPES, FLOATS, INTEGERS, isDifferentiable } from '../dtypes.ts';
import type { Arg, Input, Line, Program, Ref, Rounding, Statement } from '../program.ts';
import { bytesOf, drawElements, drawStyle } from './elements.ts';
import { drawLayout, type Shape, type TensorOptions } from './layouts.ts';

/** What a whole case has in common. */
export interface DrawOptions {
  /** The dtype of tensors that are not asked for in another. */
  readonly dtype?: DType;
  /** How often something that does not fit is drawn. @default 0.03 */
  readonly mishaps?: number;
  /** How often tensors are views. @default 0.35 */
  readonly views?: number;
  /** The largest size of a dimension. @default 5 */
  readonly longest?: number;
  /** Above as many elements, inputs are patterns. @default 256 */
  readonly explicit?: number;
  /** How often a tensor that is asked for is one that is there already, where one fits. @default 0 */
  readonly again?: number;
}

/** A tensor of the program that further operations may take. */
export interface Known {
  readonly ref: Ref;
  readonly shape: Shape;
  readonly dtype: DType;
}

export class Draw {
  readonly random: Random;
  readonly dtype: DType;
  readonly lines: Line[] = [];
  private readonly options: DrawOptions;
  private readonly known: Known[] = [];

  constructor(random: Random, options: DrawOptions = {}) {
    this.random = random;
    this.options = options;
    this.dtype = options.dtype ?? drawDType(random);
  }

  program(suite: string, seed: string): Program {
    return { suite, seed, lines: this.lines };
  }

  /** Whether something that does not fit is to be drawn here. */
  mishap(): boolean {
    return this.random.chance(this.options.mishaps ?? 0.03);
  }

  /** A shape of up to `most` dimensions; dimensions of 0 and 1 are as likely as they are troublesome. */
  shape(least = 0, most = 4): number[] {
    const usual = Math.min(most, Math.max(least, this.random.pick([0, 1, 1, 2, 2, 2, 3, 3, 4])));
    const rank = least === 0 && this.mishap() ? this.random.int(0, 5) : usual;
    return Array.from({ length: rank }, () => this.size());
  }

  /** A dimension's size. */
  size(least = 0): number {
    if (least === 0 && this.random.chance(0.05)) return 0;
    if (this.random.chance(0.15)) return 1;
    return this.random.int(Math.max(1, least), (this.options.longest ?? 5) + 1);
  }

  /** `count` shapes that broadcast to one. */
  broadcast(count: number, least = 0, most = 4): number[][] {
    const full = this.shape(least, most);
    return Array.from({ length: count }, (_, i) => {
      if (i === 0 && this.random.chance(0.6)) return full;
      const from = this.random.chance(0.3) ? this.random.int(0, full.length + 1) : 0;
      const part = full.slice(from).map((n) => (this.random.chance(0.2) ? 1 : n));
      return this.mishap() ? this.shape() : part;
    });
  }

  /** A dimension of `shape`, counted from either end. */
  dim(shape: Shape): number {
    const rank = Math.max(1, shape.length);
    if (this.mishap()) return this.random.pick([rank, -rank - 1, rank + 2]);
    const dim = this.random.int(0, rank);
    return this.random.chance(0.3) ? dim - rank : dim;
  }

  /** Several dimensions of `shape`, each once. */
  dims(shape: Shape): number[] {
    const rank = shape.length;
    if (this.mishap()) return [0, 0];
    const some = this.random.shuffle(shape.map((_, i) => i)).slice(0, this.random.int(0, rank + 1));
    return some.map((d) => (this.random.chance(0.3) ? d - rank : d));
  }

  /** A tensor of elements drawn anew: a leaf, or a view of one. */
  tensor(shape: Shape, options: TensorOptions = {}): Ref {
    const { again } = this.options;
    if (again === undefined) return this.anew(shape, options);
    return this.knownLike(shape, options, again) ?? this.noted(this.anew(shape, options), shape, options);
  }

  /** Further operations may take this one. */
  know(one: Known): void {
    this.known.push(one);
  }

  private noted(ref: Ref, shape: Shape, options: TensorOptions): Ref {
    this.know({ ref, shape, dtype: options.dtype ?? this.dtype });
    return ref;
  }

  /** Of those that are there already, one that is as what is asked for; which needs no elements, layout or gradient of its own. */
  private knownLike(
    shape: Shape,
    { dtype = this.dtype, style, views, grad }: TensorOptions,
    again: number,
  ): Ref | undefined {
    if ((style ?? 'plain') !== 'plain' || views !== undefined || grad !== undefined) return undefined;
    const fitting = this.known.filter(
      (one) => one.dtype === dtype && one.shape.length === shape.length && one.shape.every((n, d) => n === shape[d]),
    );
    return fitting.length > 0 && this.random.chance(again) ? this.random.pick(fitting).ref : undefined;
  }

  private anew(shape: Shape, options: TensorOptions): Ref {
    const views = options.views !== false && this.random.chance(this.options.views ?? 0.35);
    return views ? drawLayout(this, shape, options) : this.leaf(shape, options);
  }

  /** A leaf of elements drawn anew. */
  leaf(shape: Shape, options: TensorOptions = {}): Ref {
    const dtype = options.dtype ?? this.dtype;
    const style = options.style ?? drawStyle(this.random);
    const size = shape.reduce((a, b) => a * b, 1);
    const explicit = size <= (this.options.explicit ?? 256);
    const input: Input = {
      dtype,
      shape: [...shape],
      data: explicit ? drawElements(this.random.split(`elements ${this.lines.length}`), dtype, size, style) : undefined,
      pattern: explicit ? 0 : this.random.int(0, 1000),
      requiresGrad: isDifferentiable(dtype) && (options.grad ?? this.random.chance(0.7)),
    };
    return this.add(input);
  }

  /** Integers from `low` to before `high` as a tensor: indices, classes. */
  integers(shape: Shape, low: number, high: number, dtype: DType = 'int64'): Ref {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = Array.from({ length: size }, () => (high > low ? this.random.int(low, high) : low));
    if (this.mishap() && size > 0) values[this.random.int(0, size)] = this.random.pick([high, -1, high + 3]);
    const given = this.mishap() ? this.random.pick(DTYPES) : dtype;
    return this.add({
      dtype: given,
      shape: [...shape],
      data: bytesOf(Float64Array.from(values), given),
      pattern: 0,
      requiresGrad: false,
    });
  }

  /** An int64 tensor of what `at` says for each place. */
  index(shape: Shape, at: (place: readonly number[]) => number): Ref {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = Float64Array.from({ length: size }, (_, i) => {
      const place = shape.map((n, d) => Math.floor(i / shape.slice(d + 1).reduce((a, b) => a * b, 1)) % n);
      return at(place);
    });
    return this.add({
      dtype: 'int64',
      shape: [...shape],
      data: bytesOf(values, 'int64'),
      pattern: 0,
      requiresGrad: false,
    });
  }

  /** One operation more. */
  call(op: string, ts: string, py: string, args: readonly Arg[], rounding: Rounding): Ref {
    return this.add({ op, ts, py, args, rounding } satisfies Statement);
  }

  /** The weighted gradients of `t`; of one that requires none, nothing. With `keeps`, its graph can be gone through again. */
  backward(t: Ref, keeps = false): void {
    const [ts, py] = keeps ? [', { retainGraph: true }', ', retain_graph=True'] : ['', ''];
    this.call('backward', `backward($0${ts})`, `backward($0${py})`, [t], 'never');
  }

  /** A whole number or a fraction, small or not. */
  number(): number {
    return this.random.pick([
      0,
      1,
      2,
      -1,
      3,
      -2,
      0.5,
      -1.5,
      2.25,
      0.1,
      -0.3,
      7,
      100,
      1e-3,
      Math.fround(this.random.float()),
    ]);
  }

  private add(line: Line): Ref {
    this.lines.push(line);
    return { ref: this.lines.length - 1 };
  }
}

/** float32 more often than not. */
export function drawDType(random: Random): DType {
  const kind = random.weighted({ single: 55, float: 22, integer: 15, bool: 4, complex: 4 });
  if (kind === 'single') return 'float32';
  if (kind === 'float') return random.pick(FLOATS.slice(1));
  if (kind === 'integer') return random.pick(INTEGERS);
  return kind === 'bool' ? 'bool' : 'complex64';
}
