/** @file Kernels of our own on the WebAssembly heap: which operations they are, by the names that operations ask for. */
import { InvariantError, TensorError } from '../errors.ts';
import { RELAXED_MODULE, SIMD_MODULE } from '../gen/simd.ts';
import { mergedSteps, type Step } from '../broadcast-steps.ts';
import { sizeOf, type Shape } from '../shape.ts';
import type { DeviceTensor, DeviceUpdate } from './backend.ts';
import { blockOf, type Block } from './heap.ts';
import { at, input, numbers, WINDOW_SPACE, WINDOWS, type OwnKernel } from './own-kernel.ts';
import { ownMultiply, ownProduct, type Multiply } from './products.ts';

/** A function of the module of kernels. */
export type Call = (...args: number[]) => number | void;

/** What `assembly/` exports: addresses in bytes, sizes and strides in elements. */
export type SimdExports = Readonly<Record<string, Call>>;

/** A module of one function that multiplies and adds in one instruction: `f32x4.relaxed_madd`. */
const PROBE = Uint8Array.of(
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  ...[0x01, 0x08, 0x01, 0x60, 0x03, 0x7b, 0x7b, 0x7b, 0x01, 0x7b],
  ...[0x03, 0x02, 0x01, 0x00],
  ...[0x0a, 0x0d, 0x01, 0x0b, 0x00, 0x20, 0x00, 0x20, 0x01, 0x20, 0x02, 0xfd, 0x85, 0x02, 0x0b],
);

/** Whether the engine has the relaxed instructions, as V8 has since 11.4. */
export function hasRelaxed(): boolean {
  return WebAssembly.validate(PROBE);
}

/** The bytes of memory that the kernels keep their constants in. */
export const CONSTANTS_BYTES = 672;

/**
 * Starts the kernels over a heap, where `constants` are CONSTANTS_BYTES of it for them; `relaxed` are those whose products are rounded with
 * their sums. @throws where the engine has no 128-bit instructions.
 */
export function startSimd(memory: WebAssembly.Memory, constants: number, relaxed = hasRelaxed()): SimdExports {
  const module = new WebAssembly.Module(fromBase64(relaxed ? RELAXED_MODULE : SIMD_MODULE) as Uint8Array<ArrayBuffer>);
  return new WebAssembly.Instance(module, { env: { memory, constants, ln: Math.log } }).exports as SimdExports;
}

function fromBase64(text: string): Uint8Array {
  const bytes = atob(text);
  return Uint8Array.from(bytes, (c) => c.charCodeAt(0));
}

const count = (t: DeviceTensor): number => blockOf(t.buffer).nbytes >> 2;

function unary(run: Call): OwnKernel {
  return (heap, inputs) => {
    const x = input(inputs, 'x');
    const n = count(x);
    const out = heap.make(n, 'float32');
    run(at(x), out.at, n);
    return out;
  };
}

/** A function of a gradient and a result. */
function gradient(run: Call): OwnKernel {
  return (heap, inputs) => {
    const y = input(inputs, 'y');
    const n = count(y);
    const out = heap.make(n, 'float32');
    run(at(input(inputs, 'dy')), at(y), out.at, n);
    return out;
  };
}

function binary(run: Call): OwnKernel {
  return (heap, inputs) => {
    const [a, b] = [input(inputs, 'a'), input(inputs, 'b')];
    const [na, nb] = [count(a), count(b)];
    if (na === nb && a.shape.length === b.shape.length && a.shape.every((n, d) => n === b.shape[d])) {
      const out = heap.make(na, 'float32');
      run(at(a), 0, 1, at(b), 0, 1, out.at, 1, na);
      return out;
    }
    const shape = broadcast(a.shape, b.shape);
    const out = heap.make(sizeOf(shape), 'float32');
    walkPairs(mergedSteps(a.shape, b.shape, shape), (ia, ra, sa, ib, rb, sb, io, m, n) =>
      run(at(a) + 4 * ia, ra, sa, at(b) + 4 * ib, rb, sb, out.at + 4 * io, m, n),
    );
    return out;
  };
}

/** The shape of two that are known to broadcast. */
function broadcast(a: Shape, b: Shape): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const [x, y] = [a[i - rank + a.length] ?? 1, b[i - rank + b.length] ?? 1];
    return x === 1 ? y : x;
  });
}

type PairRuns = (
  ia: number,
  ra: number,
  sa: number,
  ib: number,
  rb: number,
  sb: number,
  io: number,
  m: number,
  n: number,
) => void;

/** Calls `runs` for the two innermost dimensions of a result, once for each position in the others. */
function walkPairs(steps: Step[], runs: PairRuns): void {
  const inner = steps.pop() ?? { n: 1, a: 0, b: 0 };
  const outer = steps.pop() ?? { n: 1, a: 0, b: 0 };
  const index = steps.map(() => 0);
  const each = inner.n * outer.n;
  const total = steps.reduce((n, step) => n * step.n, each);
  for (let io = 0, ia = 0, ib = 0; io < total; io += each) {
    runs(ia, outer.a, inner.a, ib, outer.b, inner.b, io, outer.n, inner.n);
    for (let d = steps.length - 1; d >= 0; d--) {
      const step = steps[d] as Step;
      ia += step.a;
      ib += step.b;
      index[d] = (index[d] as number) + 1;
      if ((index[d] as number) < step.n) break;
      ia -= step.a * step.n;
      ib -= step.b * step.n;
      index[d] = 0;
    }
  }
}

/** Rows of `n` neighbours each, of all inputs alike; attrs: rows, n, and what `more` names. */
function rows(run: Call, names: readonly string[], more: readonly string[] = []): OwnKernel {
  return (heap, inputs, attrs) => {
    const given = names.map((name) => input(inputs, name));
    const [rowCount, n] = numbers(attrs, ['rows', 'n']);
    const out = heap.make(rowCount * n, 'float32');
    run(...given.map(at), out.at, rowCount, n, ...numbers(attrs, more));
    return out;
  };
}

/** The sums over the middle of [pre, red, post], each divided by `divisor`. */
function sums(sumRows: Call, sumColumns: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const [pre, red, post, divisor] = numbers(attrs, ['pre', 'red', 'post', 'divisor']);
    const out = heap.make(pre * post, 'float32');
    const x = at(input(inputs, 'x'));
    if (post === 1) sumRows(x, out.at, pre, red, divisor);
    else sumColumns(x, out.at, pre, red, post, divisor);
    return out;
  };
}

/** Sums over all but the middle of [before, kept, after]. */
function sumsAround(run: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const sizes = numbers(attrs, ['before', 'kept', 'after', 'divisor']);
    const out = heap.make(sizes[1], 'float32');
    run(at(input(inputs, 'x')), out.at, ...sizes);
    return out;
  };
}

const POOLS = ['images', 'h', 'w', 'kh', 'kw', 'sy', 'sx', 'py', 'px', 'outH', 'outW'];

/** A kernel with one input x, sizes in `names`, and a result of `size` elements. */
function sized(run: Call, names: readonly string[], dtype: 'float32' | 'int32' = 'float32'): OwnKernel {
  return (heap, inputs, attrs) => {
    const [size] = numbers(attrs, ['size']);
    const out = heap.make(size, dtype);
    run(at(input(inputs, 'x')), out.at, ...numbers(attrs, names));
    return out;
  };
}

const SPACE = ['c', 'h', 'w', 'filters', 'kh', 'kw', 'sx', 'py', 'px'];
const IMAGES = ['n', 'c', 'h', 'w', 'filters', ...WINDOWS.slice(4)];

/** A kernel of operands and sizes that needs room meanwhile: `space` says how much, by the sizes in `needs`. */
function roomy(
  run: Call,
  operands: readonly string[],
  names: readonly string[],
  space: Call,
  needs: readonly string[],
): OwnKernel {
  return (heap, inputs, attrs) => {
    const [size] = numbers(attrs, ['size']);
    const places = operands.map((name) => at(input(inputs, name)));
    return heap.filled(size, (out) =>
      heap.meanwhile(space(...numbers(attrs, needs)) as number, (room) => {
        run(...places, out, room, ...numbers(attrs, names));
      }),
    );
  };
}

/** A strided view: attrs have `offset`, four sizes and four strides. */
function strided(run: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const x = blockOf(input(inputs, 'x').buffer);
    const sizes = attrs['sizes'] as readonly number[];
    const strides = attrs['strides'] as readonly number[];
    const [offset] = numbers(attrs, ['offset']);
    const out = heap.make(sizeOf(sizes), x.dtype);
    run(x.at + 4 * offset, out.at, ...sizes, ...strides);
    return out;
  };
}

/** The adjoint of a strided view: attrs have `size`, that of the result, too. */
function placed(run: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const [size, offset] = numbers(attrs, ['size', 'offset']);
    const out = heap.make(size, 'float32');
    const [sizes, strides] = [attrs['sizes'] as readonly number[], attrs['strides'] as readonly number[]];
    run(at(input(inputs, 'x')), out.at, size, offset, ...sizes, ...strides);
    return out;
  };
}

/** a or b, each a number or all of `m` times `n` elements, by n bytes of `c`. */
function chosen(run: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const [m, n] = numbers(attrs, ['m', 'n']);
    const [c, a, b] = [input(inputs, 'c'), input(inputs, 'a'), input(inputs, 'b')];
    const out = heap.make(m * n, 'float32');
    const step = (t: DeviceTensor): number => (count(t) === 1 ? 0 : 1);
    run(at(c), at(a), step(a), at(b), step(b), out.at, m, n);
    return out;
  };
}

/** A number for each of `rows` rows of `n` neighbours. */
function ofRows(run: Call): OwnKernel {
  return (heap, inputs, attrs) => {
    const [rowCount, n] = numbers(attrs, ['rows', 'n']);
    const out = heap.make(rowCount, 'float32');
    run(at(input(inputs, 'x')), out.at, rowCount, n);
    return out;
  };
}

/** Elements at positions, or their adjoint: attrs have `size`, the elements of the result. */
function positioned(run: Call, adjoint: boolean): OwnKernel {
  return (heap, inputs, attrs) => {
    const [x, positions] = [input(inputs, 'x'), input(inputs, 'positions')];
    const [size] = numbers(attrs, ['size']);
    const out = heap.make(size, 'float32');
    if (adjoint) run(at(x), at(positions), out.at, count(positions), size);
    else run(at(x), at(positions), out.at, size);
    return out;
  };
}

/** Rows of `x` by their numbers: those at `ids` (attrs: n, width), or sums of those at `from` in the rows `to` says (and `rows`). */
function byRow(run: Call, adds: boolean): OwnKernel {
  return (heap, inputs, attrs) => {
    const x = at(input(inputs, 'x'));
    const [n, width] = numbers(attrs, ['n', 'width']);
    const [rowCount] = adds ? numbers(attrs, ['rows']) : [n];
    const out = heap.make(rowCount * width, 'float32');
    if (adds) run(x, at(input(inputs, 'from')), at(input(inputs, 'to')), out.at, n, width, rowCount);
    else run(x, at(input(inputs, 'ids')), out.at, n, width);
    return out;
  };
}

/** A function of the module. @throws TensorError for one that it lacks. */
export function exported(exports: SimdExports, name: string): Call {
  const run = exports[name];
  if (run === undefined) throw new TensorError(`the module of kernels has no ${name}: run npm run generate`);
  return run;
}

/** Every kernel by the name that operations ask for; those of TensorFlow.js's names take its place. */
export function ownKernels(exports: SimdExports, multiply: Multiply): ReadonlyMap<string, OwnKernel> {
  const of = (name: string): Call => exported(exports, name);
  return new Map<string, OwnKernel>([
    ['Add', binary(of('add'))],
    ['Sub', binary(of('sub'))],
    ['Multiply', binary(of('mul'))],
    ['RealDiv', binary(of('div'))],
    ['Maximum', binary(of('maximum'))],
    ['Minimum', binary(of('minimum'))],
    ['Neg', unary(of('neg'))],
    ['Abs', unary(of('abs'))],
    ['Sqrt', unary(of('sqrt'))],
    ['Rsqrt', unary(of('rsqrt'))],
    ['Square', unary(of('square'))],
    ['Reciprocal', unary(of('reciprocal'))],
    ['Relu', unary(of('relu'))],
    ['Exp', unary(of('expOf'))],
    ['Log', unary(of('logOf'))],
    ['Sigmoid', unary(of('sigmoidOf'))],
    ['Tanh', unary(of('tanhOf'))],
    ['ReluGrad', gradient(of('reluGrad'))],
    ['BatchMatMul', ownProduct(multiply)],
    ['SumBlocks', sums(of('sumRows'), of('sumColumns'))],
    ['SumAround', sumsAround(of('sumAround'))],
    ['SoftmaxRows', rows(of('softmaxRows'), ['x'])],
    ['LogSoftmaxRows', rows(of('logSoftmaxRows'), ['x'])],
    ['SoftmaxGradRows', rows(of('softmaxGradRows'), ['dy', 'y'])],
    ['LogSoftmaxGradRows', rows(of('logSoftmaxGradRows'), ['dy', 'y'])],
    ['WhitenRows', rows(of('whitenRows'), ['x'], ['eps'])],
    ['WhitenGradRows', rows(of('whitenGradRows'), ['dy', 'x'], ['eps'])],
    ['CopyStrided', strided(of('copyStrided'))],
    ['PlaceStrided', placed(of('placeStrided'))],
    ['Choose', chosen(of('choose'))],
    ['LargestRows', ofRows(of('largestRows'))],
    ['Unfold', roomy(of('unfold'), ['x'], WINDOWS, of('windowSpace'), WINDOW_SPACE)],
    ['Fold', roomy(of('fold'), ['x'], WINDOWS, of('windowSpace'), WINDOW_SPACE)],
    ['Convolve', roomy(of('convolve'), ['x', 'filters'], IMAGES, of('convolveSpace'), SPACE)],
    [
      'ConvolveFilter',
      roomy(of('convolveFilter'), ['x', 'dy'], IMAGES, of('convolveFilterSpace'), [...SPACE, 'outH', 'outW']),
    ],
    ['LargestPositions', sized(of('largestPositions'), POOLS, 'int32')],
    ['Take', positioned(of('take'), false)],
    ['TakeRows', byRow(of('takeRows'), false)],
    ['AddRows', byRow(of('addRows'), true)],
    ['Put', positioned(of('put'), true)],
  ]);
}

/** Our own product of matrices. */
export function multiplyBy(exports: SimdExports): Multiply {
  return ownMultiply(exports['product'] as (...args: number[]) => void, exports['productSpace'] as () => number);
}

/** Steps of optimisers in place, by the names of TensorFlow's kernels for them. */
export function ownUpdate(
  exports: SimdExports,
  update: DeviceUpdate,
  targets: readonly Block[],
  gradient: Block,
): void {
  const [p, ...slots] = targets.map((block) => block.at) as [number, ...number[]];
  const n = gradient.nbytes >> 2;
  const { scalars, penalty } = update;
  switch (update.kernel) {
    case 'ResourceApplyGradientDescent': {
      const [lr] = scalars as [number];
      exports['descend']?.(p, gradient.at, n, lr, penalty);
      return;
    }
    case 'ResourceApplyMomentum': {
      const [lr, momentum] = scalars as [number, number];
      const nesterov = update.flags?.['use_nesterov'] === true ? 1 : 0;
      exports['glide']?.(p, slots[0] as number, gradient.at, n, lr, momentum, penalty, nesterov);
      return;
    }
    case 'ResourceApplyAdam': {
      const [, , rate, b1, b2, eps] = scalars as [number, number, number, number, number, number];
      const [m, v] = slots as [number, number];
      exports['adapt']?.(p, m, v, gradient.at, n, 1 - b1, b2, 1 - b2, rate, eps, update.shrink, penalty);
      return;
    }
    default:
      throw new InvariantError(`there is no ${update.kernel} on the WebAssembly heap`);
  }
}
