/** @file The public surface of @backwire/torch: joining groups of torch, files of torch.save, values of Python. */
export { PyKwargs } from './calls/targets.ts';
export { loadStateDict, loadTorchFile, type TorchFileOptions } from './file/load.ts';
export { saveStateDict, saveTorchFile } from './file/save.ts';
export type { GatewayObjects } from './gateway/allow-list.ts';
export { throughGateway, type Gateway } from './gateway/client.ts';
export { serveGateway, type GatewayOptions } from './gateway/serve.ts';
export { createTorchAgent, joinTorch } from './join.ts';
export { DEFAULT_TORCH_LIMITS, type TorchLimits } from './limits.ts';
export type { TorchOptions } from './options.ts';
export { py, type Py, type PyNamed } from './py.ts';
export type { TorchAgent } from './torch-agent.ts';
export {
  PyByteArray,
  PyDefaultDict,
  PyDeque,
  PyFrozenSet,
  PyOrderedDict,
  PyTuple,
  TorchSize,
  tupleOf,
} from './values/containers.ts';
export { PyName } from './values/name.ts';
export { PyComplex, PyFloat, PyRange, PySlice } from './values/numbers.ts';
export { OpaqueTensor, type TensorLike } from './values/opaque-tensor.ts';
export { PyDateTime, PyTimeDelta, PyTimeZone, type DateTimeParts } from './values/time.ts';
export { TorchDType, TorchDevice, TorchLayout } from './values/torch-types.ts';
