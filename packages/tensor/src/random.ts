/** @file Random tensors from a counter-based generator: the same seed gives the same numbers on every backend and machine. */
import { checkArguments } from './arguments.ts';
import { cast, dtypes, encode, encodeLanes, type DType } from './dtype.ts';
import { ShapeError } from './errors.ts';
import { fromArray } from './host.ts';
import { checkCreated, FLOATING, REAL, REAL_NUMBER } from './ops/takes.ts';
import { checkElement } from './range.ts';
import { checkShape, sizeOf, type Shape } from './shape.ts';
import { checkGrad, CREATE_OPTIONS, type CreateOptions } from './creation.ts';
import { observedCreation } from './observed.ts';
import { checkOptionNames } from './option-names.ts';
import type { Tensor } from './tensor.ts';

/** High and low words of a 32 by 32 bit product. */
function mulWide(a: number, b: number, out: Uint32Array, at: number): void {
  const [ah, al, bh, bl] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const low = al * bl;
  const mid1 = ah * bl + (low >>> 16);
  const mid2 = al * bh + (mid1 & 0xffff);
  out[at] = ah * bh + Math.floor(mid1 / 65_536) + Math.floor(mid2 / 65_536);
  out[at + 1] = Math.imul(a, b);
}

/**
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words of a counter and a key.
 */
export function philox(counter: Uint32Array, key0: number, key1: number, out: Uint32Array): void {
  let [c0, c1, c2, c3] = counter as unknown as [number, number, number, number];
  let k0 = key0 >>> 0;
  let k1 = key1 >>> 0;
  const wide = new Uint32Array(4);
  for (let round = 0; round < 10; round++) {
    mulWide(0xd2511f53, c0, wide, 0);
    mulWide(0xcd9e8d57, c2, wide, 2);
    const [h0, l0, h1, l1] = wide as unknown as [number, number, number, number];
    c0 = (h1 ^ c1 ^ k0) >>> 0;
    c1 = l1;
    c2 = (h0 ^ c3 ^ k1) >>> 0;
    c3 = l0;
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/** A stream of random words: a key and a position. */
export class Generator {
  private key: readonly [number, number] = [0, 0];
  private readonly counter = new Uint32Array(4);
  private readonly block = new Uint32Array(4);
  private used = 4;

  constructor(seed: number) {
    this.seed(seed);
  }

  /** Starts over from `seed`, a whole number below 2^53. */
  seed(seed: number): void {
    if (!Number.isSafeInteger(seed)) throw new RangeError(`a seed is a safe integer, got ${seed}`);
    this.key = [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];
    this.counter.fill(0);
    this.used = 4;
  }

  /** Where the stream is, to come back to: in another thread, too. */
  save(): Uint32Array {
    return Uint32Array.of(...this.key, this.used, ...this.counter, ...this.block);
  }

  /** Goes back to where `save` was called. */
  restore(saved: Uint32Array): void {
    const [key0, key1, used] = saved as unknown as [number, number, number];
    this.key = [key0, key1];
    this.used = used;
    this.counter.set(saved.subarray(3, 7));
    this.block.set(saved.subarray(7));
  }

  /** 32 random bits. */
  next(): number {
    if (this.used === 4) {
      philox(this.counter, this.key[0], this.key[1], this.block);
      this.used = 0;
      for (let i = 0; i < 4; i++) {
        this.counter[i] = (this.counter[i] as number) + 1;
        if (this.counter[i] !== 0) break;
      }
    }
    return this.block[this.used++] as number;
  }

  /** Uniform in [0, 1) with 24 bits: exact in float32. */
  uniform(): number {
    return (this.next() >>> 8) * 2 ** -24;
  }

  /** Uniform in [0, 1) with the 53 bits of a double. */
  uniformDouble(): number {
    return ((this.next() >>> 11) * 2 ** 32 + this.next()) * 2 ** -53;
  }

  /**
   * True with this probability, however small: one in ten thousand million is no multiple of 2^-24. What 24 bits leave open, which
   * happens once in sixteen million times, further ones decide.
   */
  chance(probability: number): boolean {
    const drawn = this.next() >>> 8;
    const due = probability * 2 ** 24;
    const whole = Math.floor(due);
    return drawn === whole ? this.uniformDouble() < due - whole : drawn < whole;
  }

  /** Uniform whole number in [0, n), for n up to 2^53: without bias. */
  below(n: number): number {
    if (n > 2 ** 32) {
      const limit = 2 ** 53 - (2 ** 53 % n);
      for (;;) {
        const v = (this.next() >>> 11) * 2 ** 32 + this.next();
        if (v < limit) return v % n;
      }
    }
    const limit = 2 ** 32 - (2 ** 32 % n);
    for (;;) {
      const v = this.next();
      if (v < limit) return v % n;
    }
  }

  /** As `below`, for n up to 2^64. */
  belowWide(n: bigint): bigint {
    const limit = 2n ** 64n - (2n ** 64n % n);
    for (;;) {
      const v = (BigInt(this.next()) << 32n) + BigInt(this.next());
      if (v < limit) return v % n;
    }
  }

  /** The whole numbers below `n` in random order. */
  permutation(n: number): Float64Array {
    const out = Float64Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = this.below(i + 1);
      const held = out[i] as number;
      out[i] = out[j] as number;
      out[j] = held;
    }
    return out;
  }
}

const generator = new Generator(Math.floor(Math.random() * 2 ** 32));

/**
 * Seeds the process's generator: everything random in this package follows from it.
 * @param seed a whole number
 * @example
 * ```ts
 * manualSeed(7);
 * const a = rand([2]);
 * manualSeed(7);
 * console.log(a.sub(rand([2])).abs().sum().item()); // 0
 * ```
 */
export function manualSeed(seed: number): void {
  checkArguments('manualSeed', [seed]);
  generator.seed(seed);
}

/** A seed for a generator of its own, drawn from that of the process. */
export function drawSeed(): number {
  return (generator.next() >>> 11) * 2 ** 32 + generator.next();
}

/** Where the random numbers are now. */
export function randomState(): Uint32Array {
  return generator.save();
}

/** Brings the random numbers back to where they were. */
export function setRandomState(saved: Uint32Array): void {
  generator.restore(saved);
}

function make(
  name: string,
  shape: Shape,
  options: CreateOptions,
  fill: (out: Float64Array, dtype: DType) => void,
): Tensor<'float32'> {
  checkShape(shape);
  checkOptionNames(options, CREATE_OPTIONS, `${name}()`);
  checkArguments(name, [shape, options]);
  const dtype: DType = options.dtype ?? 'float32';
  checkCreated(name, FLOATING, dtype);
  const made = observedCreation(`aten::${name}`, () => {
    const values = new Float64Array(sizeOf(shape) * dtypes[dtype].lanes);
    fill(values, dtype);
    return fromArray(encodeLanes(values, dtype), dtype, [...shape], options.requiresGrad);
  });
  return made as unknown as Tensor<'float32'>;
}

/** Uniform in [0, 1); both parts of complex numbers are. */
export function rand(shape: Shape, options: CreateOptions = {}): Tensor<'float32'> {
  return make('rand', shape, options, (out, dtype) => {
    const draw = uniformOf(dtype);
    const most = largestBelowOne(dtype);
    for (let i = 0; i < out.length; i++) out[i] = Math.min(draw(), most);
  });
}

const SIGNIFICANT: Readonly<Partial<Record<DType, number>>> = { float64: 53, float16: 11, bfloat16: 8 };

/** The largest number below 1 that elements of `dtype` hold: what is drawn more finely would round to 1. */
export function largestBelowOne(dtype: DType): number {
  return 1 - 2 ** -(SIGNIFICANT[dtype] ?? 24);
}

/** Uniform in [0, 1), as finely as elements of `dtype` hold. */
function uniformOf(dtype: DType): () => number {
  return dtype === 'float64' ? () => generator.uniformDouble() : () => generator.uniform();
}

/**
 * Standard normal, by the method of Box and Muller; the parts of complex numbers have a variance of a half each.
 * @param shape its sizes
 * @param options `dtype`, `device`, `requiresGrad`
 * @example
 * ```ts
 * manualSeed(1);
 * const x = randn([3, 4]);
 * console.log(x.shape, x.dtype); // [ 3, 4 ] float32
 * ```
 */
export function randn(shape: Shape, options: CreateOptions = {}): Tensor<'float32'> {
  return make('randn', shape, options, (out, dtype) => {
    const draw = uniformOf(dtype);
    const variance = dtype === 'complex64' ? 0.5 : 1;
    for (let i = 0; i < out.length; i += 2) {
      const radius = Math.sqrt(-2 * variance * Math.log(1 - draw()));
      const angle = 2 * Math.PI * draw();
      out[i] = radius * Math.cos(angle);
      if (i + 1 < out.length) out[i + 1] = radius * Math.sin(angle);
    }
  });
}

/** Whole numbers in [low, high), as int64 unless told. Throws RangeError where the dtype has no place for them. */
export function randint<D extends DType = 'int64'>(
  low: number,
  high: number,
  shape: Shape,
  options: CreateOptions<D> = {},
): Tensor<D> {
  checkArguments('randint', [low, high, shape, options]);
  checkShape(shape);
  checkOptionNames(options, CREATE_OPTIONS, 'randint()');
  const dtype = (options.dtype ?? 'int64') as D;
  checkCreated('randint', REAL, dtype);
  checkGrad(dtype, options.requiresGrad);
  if (!(high > low) || !Number.isSafeInteger(low) || !Number.isSafeInteger(high)) {
    throw new ShapeError(`randint expects whole numbers low < high, got ${low} and ${high}`);
  }
  for (const bound of [low, high - 1]) checkElement(bound, dtype);
  return observedCreation('aten::randint', () => {
    const span = high - low;
    const draw = Number.isSafeInteger(span)
      ? (): number => low + generator.below(span)
      : (): number => Number(BigInt(low) + generator.belowWide(BigInt(high) - BigInt(low)));
    const out = Float64Array.from({ length: sizeOf(shape) }, draw);
    return fromArray(encode(out, dtype), dtype, [...shape], options.requiresGrad);
  });
}

/** The whole numbers below `n` in random order, as int64 unless told. Throws RangeError where the dtype has no place for them. */
export function randperm<D extends DType = 'int64'>(n: number, options: CreateOptions<D> = {}): Tensor<D> {
  checkArguments('randperm', [n, options]);
  checkShape([n]);
  checkOptionNames(options, CREATE_OPTIONS, 'randperm()');
  const dtype = (options.dtype ?? 'int64') as D;
  checkCreated('randperm', REAL_NUMBER, dtype);
  checkGrad(dtype, options.requiresGrad);
  if (n > 0) checkElement(n - 1, dtype);
  return observedCreation('aten::randperm', () => {
    const out = BigInt64Array.from(generator.permutation(n), BigInt);
    return fromArray(dtype === 'int64' ? out : cast(out, 'int64', dtype), dtype, [n], options.requiresGrad);
  });
}

/** 1 with the given probability, else 0, in the shape and dtype of `t`. */
export function bernoulliLike(t: Tensor, probability: number): Tensor {
  const values = Float32Array.from({ length: t.size }, () => (generator.chance(probability) ? 1 : 0));
  return fromArray(encode(values, t.dtype), t.dtype, t.shape);
}

/** For each probability 1 or 0. */
export function chances(probabilities: ArrayLike<number>): Float64Array {
  return Float64Array.from(probabilities, (probability) => (generator.chance(probability) ? 1 : 0));
}

/** `n` numbers uniform in [0, 1). */
export function uniforms(n: number): Float64Array {
  return Float64Array.from({ length: n }, () => generator.uniform());
}

/** A number uniform in [0, 1) with the 53 bits of a double: what lies between two of `uniforms`. */
export function finer(): number {
  return generator.uniformDouble();
}
