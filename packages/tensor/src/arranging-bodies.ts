/** @file The bodies of the methods in arranging-methods.ts. */
import * as addc from './ops/addc.ts';
import * as arrange from './ops/arrange.ts';
import * as bits from './ops/bitwise.ts';
import * as forms from './ops/inplace-forms.ts';
import * as indexing from './ops/indexing.ts';
import * as order from './ops/order.ts';
import * as sampling from './ops/sampling.ts';
import { scatterReduce } from './ops/scatter-reduce.ts';
import * as subscript from './ops/subscript.ts';

export const arrangingBodies = {
  ...subscript,
  indexCopy: indexing.indexCopy,
  takeAlongDim: indexing.takeAlongDim,
  scatterReduce,
  repeat: arrange.repeat,
  repeatInterleave: arrange.repeatInterleave,
  movedim: arrange.movedim,
  unflatten: arrange.unflatten,
  broadcastTo: arrange.broadcastTo,
  diff: arrange.diff,
  median: order.median,
  kthValue: order.kthValue,
  quantile: order.quantile,
  countNonzero: order.countNonzero,
  ...bits,
  addcmul: addc.addcmul,
  addcdiv: addc.addcdiv,
  baddbmm: addc.baddbmm,
  bernoulli: sampling.bernoulli,
  multinomial: sampling.multinomial,
  normal_: sampling.normal_,
  uniform_: sampling.uniform_,
  bernoulli_: sampling.bernoulli_,
  ...forms,
};
