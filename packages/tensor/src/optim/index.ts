/** @file The optimisers: `optim.SGD` and so on. */
export {
  Adam,
  AdamW,
  Adamax,
  RAdam,
  SparseAdam,
  type AdamOptions,
  type RAdamOptions,
  type SparseAdamOptions,
} from './adam.ts';
export {
  Adadelta,
  Adagrad,
  RMSprop,
  Rprop,
  type AdadeltaOptions,
  type AdagradOptions,
  type RMSpropOptions,
  type RpropOptions,
} from './adaptive.ts';
export type { GivenGroup, ParamGroup, Params } from './groups.ts';
export { Optimizer, type CommonOptions } from './optimizer.ts';
export { type OptimizerState } from './state.ts';
export { SGD, type SGDOptions } from './sgd.ts';
export * as lrScheduler from './schedulers.ts';
