/** @file What members of a Backwire group need to call through a gateway into a torch group, wherever they run: nothing of Node. */
export { PyKwargs } from './calls/targets.ts';
export { throughGateway, type Gateway } from './gateway/client.ts';
export { py, type Py, type PyNamed } from './py.ts';
export { PyComplex, PyFloat, PyRange, PySlice } from './values/numbers.ts';
export { OpaqueTensor } from './values/opaque-tensor.ts';
export { PyDateTime, PyTimeDelta, PyTimeZone, type DateTimeParts } from './values/time.ts';
export { TorchDType, TorchDevice, TorchLayout } from './values/torch-types.ts';
