/** @file What sibling packages use of @backwire/tensor; not covered by semantic versioning. */
import './node-version.ts';
import './install.ts';

export { ambient, runAs, runAtRoot, runCall, runClean, runWith, type Ambient, type OpObserver } from './ambient.ts';
export { dtypes, isDType, viewAs, type DTypeInfo } from './dtype.ts';
export { Storage, storageFromBytes, type StorageOptions } from './storage.ts';
export { sparseFromParts, tensorFromParts, type TensorParts } from './creation.ts';
export type { SparseParts } from './tensor.ts';
export { AccumulateGrad, Node, runHooks, type Edge, type OutputInfo } from './autograd/node.ts';
export { countDependencies, fit as fitGradient } from './autograd/backward/engine.ts';
export { gradEdge, setHistory, shareHandle } from './autograd/record.ts';
export { addGradients, addToHeld, sumTo } from './ops/gradients.ts';
export { aligned, readBytes } from './host.ts';
export { copyStrided, type StridedBytes } from './strided.ts';
export { isNamed, named } from './named.ts';
export { adoptIntoScope, callScope, scopedIn, sweep, tensorsIn, unswept, untracked } from './scope.ts';
export { builtinOps, type BuiltinOp } from './builtins.ts';
export { replicas, type RunningReplica } from './nn/replicas.ts';
