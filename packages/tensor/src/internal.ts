/** @file What sibling packages use of @backwire/tensor; not covered by semantic versioning. */
import './runtime-version.ts';
import './install.ts';

export { ambient, runAtRoot, runCall, runClean, runWith, thenHere, type OpObserver } from './ambient.ts';
export { Storage, storageFromBytes, type StorageOptions } from './storage.ts';
export { sparseFromParts, tensorFromParts } from './creation.ts';
export { tensorsIn, type Edge, type Node } from './tensor.ts';
export { AccumulateGrad, FunctionNode } from './autograd/node.ts';
export { fit as fitGradient } from './autograd/backward/engine.ts';
export { gradEdge, setHistory, shareHandle } from './autograd/record.ts';
export { addGradients, addToHeld } from './ops/gradients.ts';
export { spanOf } from './ops/overlap.ts';
export { isDeviceName } from './device.ts';
export { checkDevice, place } from './devices.ts';
export { ASYNC_DISPOSE, DISPOSE } from './disposal.ts';
export { hashText } from './hash-text.ts';
export { isOwnFrame } from './here.ts';
export { readBytes } from './host.ts';
export { kindOf } from './given.ts';
export { nearestName, optionNames, unknownOption } from './option-names.ts';
export {
  adoptIntoScope,
  callScope,
  freeAll,
  noteFound,
  scopedIn,
  scopeFor,
  scopeHere,
  sweep,
  untracked,
  type CurrentScope,
  type Remains,
  type Scoped,
} from './scope.ts';
export { checkNumber, clipFactor } from './nn/clip.ts';
export { contentOf, restoreContent } from './nn/module.ts';
export { currentExchange, type ReplicaSeat, type Room, type Told } from './nn/exchange.ts';
export { LooseSeat, MOST_ROOM, takeSeat, type SeatingGroup } from './nn/replica-seats.ts';
export { partReduces, replicas, type RunningReplica, type Turn } from './nn/replicas.ts';
