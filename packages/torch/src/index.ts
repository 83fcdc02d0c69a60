/** @file The public surface of @backwire/torch: files of torch.save, and values of Python that JavaScript has no equal of. */
export { loadStateDict, loadTorchFile, type TorchFileOptions } from './file/load.ts';
export { saveStateDict, saveTorchFile } from './file/save.ts';
export { DEFAULT_TORCH_LIMITS, type TorchLimits } from './limits.ts';
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
