/** @file Puts the operations on Tensor's prototype and fills the derivative table: imported for its effect by both entry points. */
import { accumulateGrad } from './autograd/backward/accumulate.ts';
import { derivativeTable } from './autograd/derivatives/table.ts';
import { backward, registerHook, retainGrad } from './autograd/backward/engine.ts';
import { setAccumulate, setShow } from './autograd/node.ts';
import { shareHandle } from './autograd/record.ts';
import { derivatives } from './autograd/registry.ts';
import { refreshView } from './ops/view-history.ts';
import { isDType, type DType } from './dtype.ts';
import type { TensorMethods } from './methods.ts';
import * as arithmetic from './ops/arithmetic.ts';
import { conversions } from './ops/conversions.ts';
import * as copies from './ops/copy.ts';
import * as values from './ops/values.ts';
import * as interop from './interop.ts';
import * as matrices from './ops/matmul.ts';
import * as inPlace from './ops/inplace-elementwise.ts';
import * as reduce from './ops/reduce.ts';
import { clamp, maskedFill } from './ops/where.ts';
import * as softmaxes from './ops/softmax.ts';
import * as activations from './ops/activations.ts';
import * as composite from './ops/composite.ts';
import * as structure from './ops/structure.ts';
import * as linalg from './ops/linalg.ts';
import * as unary from './ops/unary.ts';
import * as views from './ops/views.ts';
import * as indexing from './ops/indexing.ts';
import { arrangingBodies } from './arranging-bodies.ts';
import { castSparse, negSparse } from './ops/sparse/arithmetic.ts';
import * as coo from './ops/sparse/coo.ts';
import { addSparseInPlace, divSparseInPlace, mulSparseInPlace } from './ops/sparse/inplace.ts';
import { setViewRefresh, Tensor } from './tensor.ts';

/** The body of a method: the tensor it is called on comes first. */
type Body = (self: Tensor, ...args: never[]) => unknown;

/** One entry a method: leaving one out, or naming one that has no type in methods.ts, does not compile. */
const methods: Readonly<
  Record<
    Exclude<keyof TensorMethods<DType, Tensor, Tensor>, 'isCoalesced'> | 'indices' | 'to' | keyof typeof conversions,
    Body
  >
> = {
  ...arrangingBodies,
  ...conversions,
  add: arithmetic.add,
  sub: arithmetic.sub,
  mul: arithmetic.mul,
  div: arithmetic.div,
  floorDivide: arithmetic.floorDivide,
  remainder: arithmetic.remainder,
  pow: arithmetic.pow,
  maximum: arithmetic.maximum,
  minimum: arithmetic.minimum,
  atan2: arithmetic.atan2,
  eq: arithmetic.eq,
  ne: arithmetic.ne,
  lt: arithmetic.lt,
  le: arithmetic.le,
  gt: arithmetic.gt,
  ge: arithmetic.ge,
  logicalAnd: arithmetic.logicalAnd,
  logicalOr: arithmetic.logicalOr,
  logicalXor: arithmetic.logicalXor,
  detach: copies.detach,
  clone: copies.clone,
  contiguous: copies.contiguous,
  to: (t, target: never) => (t.sparse !== undefined && isDType(target) ? castSparse(t, target) : copies.to(t, target)),
  item: values.item,
  itemAsync: values.itemAsync,
  toArray: values.toArray,
  data: values.data,
  dataSync: values.dataSync,
  equal: values.equal,
  allClose: values.allClose,
  toTf: interop.toTf,
  matmul: matrices.matmul,
  bmm: matrices.bmm,
  mm: matrices.mm,
  dot: matrices.dot,
  addmm: matrices.addmm,
  copy_: inPlace.copy_,
  fill_: inPlace.fill_,
  zero_: inPlace.zero_,
  add_: (t, b: Tensor | number, options?: { alpha?: number }) =>
    t.sparse === undefined ? inPlace.add_(t, b, options) : addSparseInPlace(t, b, options?.alpha ?? 1),
  sub_: (t, b: Tensor | number, options?: { alpha?: number }) =>
    t.sparse === undefined ? inPlace.sub_(t, b, options) : addSparseInPlace(t, b, -(options?.alpha ?? 1)),
  mul_: (t, b: Tensor | number) => (t.sparse === undefined ? inPlace.mul_(t, b) : mulSparseInPlace(t, b)),
  div_: (t, b: Tensor | number) => (t.sparse === undefined ? inPlace.div_(t, b) : divSparseInPlace(t, b)),
  pow_: inPlace.pow_,
  neg_: inPlace.neg_,
  exp_: inPlace.exp_,
  sqrt_: inPlace.sqrt_,
  relu_: inPlace.relu_,
  sigmoid_: inPlace.sigmoid_,
  tanh_: inPlace.tanh_,
  sum: reduce.sum,
  mean: reduce.mean,
  prod: reduce.prod,
  amax: reduce.amax,
  amin: reduce.amin,
  argMax: reduce.argMax,
  argMin: reduce.argMin,
  any: reduce.any,
  all: reduce.all,
  cumsum: reduce.cumsum,
  cumprod: reduce.cumprod,
  clamp,
  maskedFill,
  softmax: softmaxes.softmax,
  logSoftmax: softmaxes.logSoftmax,
  logSumExp: softmaxes.logSumExp,
  gelu: activations.gelu,
  silu: activations.silu,
  mish: activations.mish,
  leakyRelu: activations.leakyRelu,
  elu: activations.elu,
  selu: activations.selu,
  relu6: activations.relu6,
  hardtanh: activations.hardtanh,
  hardSigmoid: activations.hardSigmoid,
  hardSwish: activations.hardSwish,
  softsign: activations.softsign,
  lerp: composite.lerp,
  variance: composite.variance,
  std: composite.std,
  norm: composite.norm,
  tile: composite.tile,
  roll: composite.roll,
  tril: structure.tril,
  triu: structure.triu,
  diagonal: structure.diagonal,
  trace: structure.trace,
  diagEmbed: structure.diagEmbed,
  flip: structure.flip,
  pad: structure.pad,
  argSort: structure.argSort,
  sort: structure.sort,
  topK: structure.topK,
  max: structure.max,
  min: structure.min,
  nonzero: structure.nonzero,
  maskedSelect: structure.maskedSelect,
  unique: structure.unique,
  inverse: linalg.inverse,
  det: linalg.det,
  cholesky: linalg.cholesky,
  neg: (t) => (t.sparse === undefined ? unary.neg(t) : negSparse(t)),
  abs: unary.abs,
  sign: unary.sign,
  exp: unary.exp,
  expm1: unary.expm1,
  log: unary.log,
  log1p: unary.log1p,
  log2: unary.log2,
  sqrt: unary.sqrt,
  rsqrt: unary.rsqrt,
  square: unary.square,
  reciprocal: unary.reciprocal,
  relu: unary.relu,
  sigmoid: unary.sigmoid,
  tanh: unary.tanh,
  sin: unary.sin,
  cos: unary.cos,
  tan: unary.tan,
  asin: unary.asin,
  acos: unary.acos,
  atan: unary.atan,
  sinh: unary.sinh,
  cosh: unary.cosh,
  asinh: unary.asinh,
  acosh: unary.acosh,
  atanh: unary.atanh,
  erf: unary.erf,
  softplus: unary.softplus,
  logSigmoid: unary.logSigmoid,
  floor: unary.floor,
  ceil: unary.ceil,
  round: unary.round,
  trunc: unary.trunc,
  logicalNot: unary.logicalNot,
  isNaN: unary.isNaN,
  isInf: unary.isInf,
  isFinite: unary.isFinite,
  reshape: views.reshape,
  view: views.view,
  transpose: views.transpose,
  t: views.t,
  permute: views.permute,
  narrow: views.narrow,
  select: views.select,
  slice: views.slice,
  expand: views.expand,
  squeeze: views.squeeze,
  unsqueeze: views.unsqueeze,
  flatten: views.flatten,
  alias: views.alias,
  split: views.split,
  chunk: views.chunk,
  unbind: views.unbind,
  indexSelect: indexing.indexSelect,
  indexAdd: indexing.indexAdd,
  gather: indexing.gather,
  scatterAdd: indexing.scatterAdd,
  scatter: indexing.scatter,
  coalesce: coo.coalesce,
  indices: coo.indices,
  values: coo.values,
  toDense: coo.toDense,
  toSparse: coo.toSparse,
  backward,
  registerHook,
  retainGrad,
};

for (const [name, body] of Object.entries(methods) as [string, (self: Tensor, ...args: unknown[]) => unknown][]) {
  const method = function (this: Tensor, ...args: unknown[]): unknown {
    return body(this, ...args);
  };
  Object.defineProperty(Tensor.prototype, name, { value: method, writable: true, configurable: true });
}
Object.defineProperty(Tensor.prototype, 'isCoalesced', {
  get(this: Tensor) {
    return coo.isCoalesced(this);
  },
  configurable: true,
});

for (const [name, rule] of Object.entries(derivativeTable)) derivatives.set(name, rule);
setAccumulate(accumulateGrad);
setShow(shareHandle);
setViewRefresh(refreshView);
