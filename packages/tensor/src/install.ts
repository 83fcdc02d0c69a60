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
import { checkedMethod } from './arguments.ts';
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
import * as spread from './ops/spread.ts';
import * as structure from './ops/structure.ts';
import * as linalg from './ops/linalg.ts';
import * as unary from './ops/unary.ts';
import * as views from './ops/views.ts';
import * as indexing from './ops/indexing.ts';
import { arrangingBodies } from './arranging-bodies.ts';
import { castSparse, negSparse } from './ops/sparse/arithmetic.ts';
import * as coo from './ops/sparse/coo.ts';
import { addSparseInPlace, divSparseInPlace, mulSparseInPlace } from './ops/sparse/inplace.ts';
import { textOf } from './printing.ts';
import { setViewRefresh, Tensor } from './tensor.ts';

/** The body of a method: the tensor it is called on comes first. */
type Body = (self: Tensor, ...args: never[]) => unknown;

type Bodies = Record<
  Exclude<keyof TensorMethods<DType, Tensor, Tensor>, 'isCoalesced'> | 'indices' | 'to' | keyof typeof conversions,
  Body
>;

function exactly<T extends Bodies>(given: T & Record<Exclude<keyof T, keyof Bodies>, never>): T {
  return given;
}

// What modules export for other operations, or as functions only, and what is another thing for sparse tensors.
const { applyView: _applyView, ...viewMethods } = views;
const { bincount: _bincount, ...structureMethods } = structure;
const { add_, sub_, mul_, div_, ...inPlaceMethods } = inPlace;
const { prelu: _prelu, softplusWith: _softplusWith, ...activationMethods } = activations;

/** Leaving a method out, or having one that has no type in methods.ts, does not compile. */
const methods = exactly({
  ...arrangingBodies,
  ...conversions,
  ...arithmetic,
  ...unary,
  ...reduce,
  ...matrices,
  ...inPlaceMethods,
  ...viewMethods,
  ...structureMethods,
  ...activationMethods,
  ...values,
  detach: copies.detach,
  clone: copies.clone,
  contiguous: copies.contiguous,
  to: (t, target: never) => (t.sparse !== undefined && isDType(target) ? castSparse(t, target) : copies.to(t, target)),
  toTf: interop.toTf,
  add_: (t, b: Tensor | number, options?: { alpha?: number }) =>
    t.sparse === undefined ? add_(t, b, options) : addSparseInPlace(t, b, options?.alpha ?? 1),
  sub_: (t, b: Tensor | number, options?: { alpha?: number }) =>
    t.sparse === undefined ? sub_(t, b, options) : addSparseInPlace(t, b, -(options?.alpha ?? 1)),
  mul_: (t, b: Tensor | number) => (t.sparse === undefined ? mul_(t, b) : mulSparseInPlace(t, b)),
  div_: (t, b: Tensor | number) => (t.sparse === undefined ? div_(t, b) : divSparseInPlace(t, b)),
  clamp,
  maskedFill,
  softmax: softmaxes.softmax,
  logSoftmax: softmaxes.logSoftmax,
  logSumExp: softmaxes.logSumExp,
  lerp: composite.lerp,
  variance: spread.variance,
  std: spread.std,
  norm: composite.norm,
  tile: composite.tile,
  roll: composite.roll,
  inverse: linalg.inverse,
  det: linalg.det,
  cholesky: linalg.cholesky,
  neg: (t) => (t.sparse === undefined ? unary.neg(t) : negSparse(t)),
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
});

for (const [name, given] of Object.entries(methods) as [string, (self: Tensor, ...args: unknown[]) => unknown][]) {
  const body = checkedMethod(name, given);
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

for (const name of ['toString', Symbol.for('nodejs.util.inspect.custom')]) {
  const value = function (this: Tensor): string {
    return textOf(this);
  };
  Object.defineProperty(Tensor.prototype, name, { value, writable: true, configurable: true });
}

for (const [name, rule] of Object.entries(derivativeTable)) derivatives.set(name, rule);
setAccumulate(accumulateGrad);
setShow(shareHandle);
setViewRefresh(refreshView);
