/** @file How each overload of the table is run by the operations of tensors here. */
import * as t from '@backwire/tensor';
import { scriptList } from '../values/containers.ts';
import { PyFloat } from '../values/numbers.ts';
import { SCHEMAS } from './schemas.ts';
import { parseSchema, type Schema } from './schema.ts';
import { dtypeOf } from './types.ts';

type Tensor = t.Tensor;

/** One overload: its arguments come in the order of its parameters, undefined for None. */
export interface Rule {
  readonly schema: Schema;
  readonly run: (args: readonly unknown[]) => unknown;
}

/** `run` with arguments of the types of its schema, which were checked against it. */
function rule<A extends readonly unknown[]>(run: (...args: A) => unknown): Rule['run'] {
  return (args) => run(...(args as A));
}

const REDUCTIONS = ['none', 'mean', 'sum'] as const;

function reduction(number: number): 'none' | 'mean' | 'sum' {
  const found = REDUCTIONS[number];
  if (found === undefined) throw new TypeError(`there is no reduction ${number}`);
  return found;
}

/** The result in the dtype that was asked for, if any was. */
function cast(tensor: Tensor, dtype: number | undefined): Tensor {
  return dtype === undefined ? tensor : tensor.to(dtypeOf(dtype));
}

/** What `run` makes of the tensor in the dtype that was asked for, in that dtype: sums and products of whole numbers are int64 else. */
function castAround(tensor: Tensor, dtype: number | undefined, run: (tensor: Tensor) => Tensor): Tensor {
  return cast(run(cast(tensor, dtype)), dtype);
}

/** A whole number as torch's ints are: of 64 bits, beyond which it begins anew. */
function wrapped(value: bigint): number | bigint {
  const whole = BigInt.asIntN(64, value);
  const number = Number(whole);
  return Number.isSafeInteger(number) ? number : whole;
}

const FLOATS: ReadonlySet<unknown> = new Set(['float16', 'bfloat16', 'float32', 'float64']);
type Whole = number | bigint;
const whole = (run: (a: bigint, b: bigint) => bigint): Rule['run'] =>
  rule((a: Whole, b: Whole) => wrapped(run(BigInt(a), BigInt(b))));

function created(dtype: number | undefined): { dtype?: t.DType } {
  return dtype === undefined ? {} : { dtype: dtypeOf(dtype) };
}

/** Of a number that comes alone. */
function dtypeOfScalar(value: unknown): t.DType {
  if (typeof value === 'boolean') return 'bool';
  return typeof value === 'bigint' || Number.isInteger(value) ? 'int64' : 'float32';
}

function only(value: unknown, fallback: unknown, what: string): void {
  if (value !== undefined && value !== fallback) throw new TypeError(`only ${what} is known here`);
}

const single = (list: readonly number[]): number => list[0] ?? 0;
const pair = (list: readonly number[]): [number, number] => [list[0] ?? 0, list[1] ?? list[0] ?? 0];

type Dim = readonly number[] | undefined;
type Loss = (a: Tensor, b: Tensor, options: { reduction: 'none' | 'mean' | 'sum' }) => Tensor;
type Weighted = (a: Tensor, b: Tensor, options: Record<string, unknown>) => Tensor;

const loss = (run: Loss): Rule['run'] =>
  rule((a: Tensor, b: Tensor, how: number) => run(a, b, { reduction: reduction(how) }));
const spread = (run: typeof t.variance): Rule['run'] =>
  rule((a: Tensor, unbiased: boolean) => run(a, undefined, { correction: unbiased ? 1 : 0 }));
const scaled = (run: (a: Tensor, b: Tensor | number, options: { alpha: number }) => Tensor): Rule['run'] =>
  rule((a: Tensor, b: Tensor | number, alpha: number) => run(a, b, { alpha }));
const first = (dims: readonly number[]): number => {
  if (dims.length !== 1) throw new TypeError('only one dimension is known here');
  return single(dims);
};
const shaped = (make: (shape: readonly number[], options: { dtype?: t.DType }) => Tensor): Rule['run'] =>
  rule((size: readonly number[], dtype?: number) => make(size, created(dtype)));
/** `size` reads the numbers of a list that stand for the directions. */
const convolution = <Size>(
  run: (
    x: Tensor,
    w: Tensor,
    options: { bias: Tensor | null; stride: Size; padding: Size; dilation: Size; groups: number },
  ) => Tensor,
  size: (list: readonly number[]) => Size,
): Rule['run'] =>
  rule((x: Tensor, w: Tensor, bias: Tensor | undefined, ...rest: [number[], number[], number[], number]) => {
    const [stride, padding, dilation, groups] = rest;
    const sizes = { stride: size(stride), padding: size(padding), dilation: size(dilation) };
    return run(x, w, { bias: bias ?? null, ...sizes, groups });
  });
/** Of a pool: by default windows lie next to each other. */
const windows = (stride: readonly number[], padding: readonly number[]) => ({
  padding: pair(padding),
  ...(stride.length === 0 ? {} : { stride: pair(stride) }),
});

const special: Readonly<Record<string, Rule['run']>> = {
  'add.Tensor': scaled(t.add),
  'add.Scalar': scaled(t.add),
  'sub.Tensor': scaled(t.sub),
  'sub.Scalar': scaled(t.sub),
  'rsub.Tensor': rule((a: Tensor, b: Tensor, alpha: number) => t.sub(b, a, { alpha })),
  'rsub.Scalar': rule((a: Tensor, b: number, alpha: number) => t.add(t.mul(a, -alpha), b)),
  'add.int': whole((a, b) => a + b),
  'add.float': rule((a: number, b: number) => new PyFloat(a + b)),
  'sub.int': whole((a, b) => a - b),
  'mul.int': whole((a, b) => a * b),
  'mul.float': rule((a: number, b: number) => new PyFloat(a * b)),
  linalg_multi_dot: rule((factors: readonly Tensor[]) =>
    factors.reduce((product, factor) => t.matmul(product, factor)),
  ),
  addmm: rule((a: Tensor, b: Tensor, c: Tensor, beta: number, alpha: number) =>
    t.add(t.mul(a, beta), t.mul(t.mm(b, c), alpha)),
  ),
  linalg_solve: rule((a: Tensor, b: Tensor, left: boolean) => {
    only(left, true, 'left=True');
    return t.solve(a, b);
  }),
  sum: rule((a: Tensor, dtype?: number) => castAround(a, dtype, (x) => x.sum())),
  'sum.dim_IntList': rule((a: Tensor, dim: Dim, keep: boolean, dtype?: number) =>
    castAround(a, dtype, (x) => x.sum(dim, keep)),
  ),
  mean: rule((a: Tensor, dtype?: number) => cast(a, dtype).mean()),
  'mean.dim': rule((a: Tensor, dim: Dim, keep: boolean, dtype?: number) => cast(a, dtype).mean(dim, keep)),
  prod: rule((a: Tensor, dtype?: number) => castAround(a, dtype, (x) => x.prod())),
  'prod.dim_int': rule((a: Tensor, dim: number, keep: boolean, dtype?: number) =>
    castAround(a, dtype, (x) => x.prod(dim, keep)),
  ),
  'split.Tensor': rule((a: Tensor, size: number, dim: number) => scriptList('Tensor', a.split(size, dim))),
  cumsum: rule((a: Tensor, dim: number, dtype?: number) => castAround(a, dtype, (x) => x.cumsum(dim))),
  cumprod: rule((a: Tensor, dim: number, dtype?: number) => castAround(a, dtype, (x) => t.cumprod(x, dim))),
  logsumexp: rule((a: Tensor, dims: readonly number[], keep: boolean) => t.logSumExp(a, first(dims), keep)),
  max: rule((a: Tensor) => a.amax()),
  min: rule((a: Tensor) => a.amin()),
  'max.other': rule((a: Tensor, b: Tensor) => t.maximum(a, b)),
  'min.other': rule((a: Tensor, b: Tensor) => t.minimum(a, b)),
  var: spread(t.variance),
  std: spread(t.std),
  'softmax.int': rule((a: Tensor, dim: number, dtype?: number) => t.softmax(cast(a, dtype), dim)),
  'log_softmax.int': rule((a: Tensor, dim: number, dtype?: number) => t.logSoftmax(cast(a, dtype), dim)),
  elu: rule((a: Tensor, alpha: number, scale: number, inputScale: number) => {
    only(scale, 1, 'scale=1');
    only(inputScale, 1, 'input_scale=1');
    return t.elu(a, alpha);
  }),
  softplus: rule((a: Tensor, beta: number, threshold: number) => {
    only(beta, 1, 'beta=1');
    only(threshold, 20, 'threshold=20');
    return t.softplus(a);
  }),
  roll: rule((a: Tensor, shifts: readonly number[], dims: readonly number[]) =>
    t.roll(a, first(shifts), dims.length === 0 ? undefined : first(dims)),
  ),
  one_hot: rule((a: Tensor, classes: number) => {
    const count = classes === -1 ? Number(a.amax().item()) + 1 : classes;
    return t.oneHot(a, count);
  }),
  index_add: rule((a: Tensor, dim: number, index: Tensor, source: Tensor, alpha: number) =>
    t.indexAdd(a, dim, index, alpha === 1 ? source : t.mul(source, alpha)),
  ),
  'scatter.value': rule((a: Tensor, dim: number, index: Tensor, value: number) => {
    return t.scatter(a, dim, index, t.full(index.shape, value, { dtype: a.dtype }));
  }),
  mse_loss: loss(t.mseLoss),
  l1_loss: loss(t.l1Loss),
  smooth_l1_loss: rule((a: Tensor, b: Tensor, how: number, beta: number) =>
    (t.smoothL1Loss as Weighted)(a, b, { reduction: reduction(how), beta }),
  ),
  huber_loss: rule((a: Tensor, b: Tensor, how: number, delta: number) =>
    (t.huberLoss as Weighted)(a, b, { reduction: reduction(how), delta }),
  ),
  binary_cross_entropy: rule((a: Tensor, b: Tensor, weight: Tensor | undefined, how: number) => {
    only(weight, undefined, 'weight=None');
    return t.binaryCrossEntropy(a, b, { reduction: reduction(how) });
  }),
  binary_cross_entropy_with_logits: rule(
    (a: Tensor, b: Tensor, weight: Tensor | undefined, posWeight: Tensor | undefined, how: number) => {
      only(weight, undefined, 'weight=None');
      only(posWeight, undefined, 'pos_weight=None');
      return t.binaryCrossEntropyWithLogits(a, b, { reduction: reduction(how) });
    },
  ),
  nll_loss: rule((a: Tensor, b: Tensor, weight: Tensor | undefined, how: number, ignoreIndex: number) =>
    t.nllLoss(a, b, { reduction: reduction(how), ignoreIndex, ...(weight === undefined ? {} : { weight }) }),
  ),
  cross_entropy_loss: rule(
    (a: Tensor, b: Tensor, weight: Tensor | undefined, how: number, ignoreIndex: number, labelSmoothing: number) =>
      t.crossEntropy(a, b, {
        reduction: reduction(how),
        ignoreIndex,
        labelSmoothing,
        ...(weight === undefined ? {} : { weight }),
      }),
  ),
  conv1d: convolution(t.conv1d, single),
  conv2d: convolution(t.conv2d, pair),
  max_pool2d: rule(
    (x: Tensor, kernel: number[], stride: number[], pad: number[], dilation: number[], ceil: boolean) => {
      only(ceil, false, 'ceil_mode=False');
      if (dilation.some((d) => d !== 1)) throw new TypeError('only dilation=1 is known here');
      return t.maxPool2d(x, pair(kernel), windows(stride, pad));
    },
  ),
  avg_pool2d: rule(
    (
      x: Tensor,
      kernel: number[],
      stride: number[],
      pad: number[],
      ceil: boolean,
      countPad: boolean,
      divisor: number | undefined,
    ) => {
      only(ceil, false, 'ceil_mode=False');
      only(countPad, true, 'count_include_pad=True');
      only(divisor, undefined, 'divisor_override=None');
      return t.avgPool2d(x, pair(kernel), windows(stride, pad));
    },
  ),
  adaptive_avg_pool2d: rule((x: Tensor, size: number[]) => t.adaptiveAvgPool2d(x, pair(size))),
  t: rule((a: Tensor) => {
    if (a.rank > 2) throw new TypeError(`t() expects a tensor with <= 2 dimensions, but self is ${a.rank}D`);
    return a.rank < 2 ? a : a.transpose(0, 1);
  }),
  'to.dtype': rule((a: Tensor, dtype: number) => a.to(dtypeOf(dtype))),
  zeros: shaped(t.zeros),
  ones: shaped(t.ones),
  rand: shaped(t.rand),
  randn: shaped(t.randn),
  full: rule((size: number[], value: number | boolean | PyFloat, dtype?: number) =>
    t.full(size, Number(value), { dtype: dtypeOfScalar(value), ...created(dtype) }),
  ),
  arange: rule((end: number | boolean | PyFloat, dtype?: number) => {
    const own = typeof end === 'boolean' ? 'int64' : dtypeOfScalar(end);
    return t.arange(0, Number(end), 1, { dtype: own, ...created(dtype) });
  }),
  eye: rule((n: number, dtype?: number) => t.eye(n, n, created(dtype))),
  zeros_like: rule((a: Tensor, dtype?: number) => cast(t.zerosLike(a), dtype)),
  ones_like: rule((a: Tensor, dtype?: number) => cast(t.onesLike(a), dtype)),
  'add_.Tensor': rule((a: Tensor, b: Tensor, alpha: number) => a.add_(b, { alpha })),
  'add_.Scalar': rule((a: Tensor, b: number, alpha: number) => a.add_(b, { alpha })),
  'sub_.Tensor': rule((a: Tensor, b: Tensor, alpha: number) => a.sub_(b, { alpha })),
  'size.int': rule((a: Tensor, dim: number) => {
    const size = a.shape.at(dim);
    if (size !== undefined) return size;
    const range = `[${-Math.max(1, a.rank)}, ${Math.max(0, a.rank - 1)}]`;
    throw new RangeError(`Dimension out of range (expected to be in range of ${range}, but got ${dim})`);
  }),
  item: rule((a: Tensor) => {
    const value = a.item();
    if (a.dtype === 'bool') return Boolean(value);
    return FLOATS.has(a.dtype) ? new PyFloat(value) : value;
  }),
  numel: rule((a: Tensor) => a.size),
};

type Operation = (...args: readonly unknown[]) => unknown;

/** The operations of tensors by the names that they carry: 'aten::add'. */
const operations: ReadonlyMap<string, Operation> = new Map(
  Object.values(t as Readonly<Record<string, unknown>>)
    .filter((value): value is Operation & t.Named => typeof value === 'function' && Object.hasOwn(value, t.rpcName))
    .map((operation) => [operation[t.rpcName], operation]),
);

/** By 'aten::add.Tensor'. What needs no rule of its own takes its arguments in torch's order. */
export const rules: ReadonlyMap<string, Rule> = new Map(
  SCHEMAS.map(parseSchema).map((schema) => {
    const own = special[schema.key.slice('aten::'.length)];
    return [schema.key, { schema, run: own ?? plain(schema) }] as const;
  }),
);

function plain({ name, key }: Schema): Rule['run'] {
  const operation = operations.get(name) ?? method(name.slice('aten::'.length));
  if (operation === undefined) throw new Error(`invariant: no operation for ${key}`);
  return (args) => {
    let { length } = args;
    while (length > 0 && args[length - 1] === undefined) length--;
    return operation(...args.slice(0, length));
  };
}

/** An operation that is a method of tensors only. */
function method(name: string): Operation | undefined {
  const own: unknown = Reflect.get(t.Tensor.prototype, name);
  return typeof own === 'function' ? (self, ...args) => Reflect.apply(own, self, args) as unknown : undefined;
}
