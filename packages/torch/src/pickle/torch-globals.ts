/** @file torch's names that a pickle of values may use. */
import { WorkerInfo } from '@backwire/rpc';
import { Parameter } from '@backwire/tensor';
import { PyTuple, TorchSize, fill, tupleOf } from '../values/containers.ts';
import { PyClass, PyName } from '../values/name.ts';
import { PythonUdf, RemoteException } from '../values/objects.ts';
import { OpaqueTensor, isTensor } from '../values/opaque-tensor.ts';
import { TorchDType, TorchDevice, TorchLayout } from '../values/torch-types.ts';
import { PyFunction, integerIn, tableOf } from './builtin-globals.ts';
import { Unbuilt } from './machine.ts';
import { quoted, refuse } from './refusal.ts';
import { generatedMethods } from './remote-modules.ts';

/** The module in which torch's RPC keeps its pickler and the objects of its calls. */
export const INTERNAL = 'torch.distributed.rpc.internal';

class UdfClass extends PyClass {
  override make(args: readonly unknown[]): PythonUdf {
    const [func, positional, kwargs] = args;
    // Programs may give the arguments as a list, and no dict.
    if (args.length !== 3 || !Array.isArray(positional) || (kwargs !== null && !(kwargs instanceof Map)))
      throw refuse('a PythonUDF is a function, a tuple of arguments and a dict');
    const named = (kwargs ?? new Map()) as Map<unknown, unknown>;
    for (const key of named.keys()) if (typeof key !== 'string') throw refuse('a keyword argument without a name');
    return new PythonUdf(func, tupleOf(positional), named);
  }
}

class RemoteExceptionClass extends PyClass {
  override make(args: readonly unknown[]): RemoteException {
    const [message, type] = args;
    if (args.length !== 2 || typeof message !== 'string' || !(type instanceof PyName))
      throw refuse('a RemoteException is a text and a class');
    return new RemoteException(message, type);
  }
}

class UnbuiltWorkerInfo extends Unbuilt {
  override build(state: unknown): WorkerInfo {
    const [name, id] = state instanceof PyTuple ? state : [];
    if (typeof name !== 'string' || name.length > 127) throw refuse('a WorkerInfo without a name');
    return new WorkerInfo(name, integerIn(id, 0, 0x7fff, 'the id of a WorkerInfo'));
  }
}

class WorkerInfoClass extends PyClass {
  override make(): UnbuiltWorkerInfo {
    return new UnbuiltWorkerInfo();
  }
}

/** Only ever asked for its two receivers. */
export const internalPickler = new PyName(INTERNAL, '_InternalRPCPickler');

function rebuildParameter(data: unknown, requiresGrad: unknown): Parameter {
  if (data instanceof OpaqueTensor) throw refuse(`a parameter of ${data.dtype}, with which nothing here computes`);
  if (!isTensor(data)) throw refuse('a parameter of something that is no tensor');
  if (typeof requiresGrad !== 'boolean') throw refuse('a parameter without requires_grad');
  return new Parameter(data, requiresGrad);
}

function device(type: unknown, index: unknown): TorchDevice {
  if (typeof type !== 'string') throw refuse('a device without a type');
  const parsed = TorchDevice.parse(type);
  if (index === undefined) return parsed;
  return new TorchDevice(parsed.type, integerIn(index, 0, 255, 'the index of a device'));
}

function size(items: unknown): TorchSize {
  if (!Array.isArray(items)) throw refuse('a torch.Size of something that is no list');
  return fill(
    new TorchSize(),
    items.map((item) => integerIn(item, 0, Number.MAX_SAFE_INTEGER, 'a size')),
  );
}

const LAYOUTS: ReadonlySet<unknown> = new Set([
  'torch.strided',
  'torch.sparse_coo',
  'torch.sparse_csr',
  'torch.sparse_csc',
  'torch.sparse_bsr',
  'torch.sparse_bsc',
  'torch.jagged',
  'torch._mkldnn',
]);

function layout(name: unknown): TorchLayout {
  if (!LAYOUTS.has(name)) throw refuse(`${typeof name === 'string' ? quoted(name) : 'a value'} is no layout`);
  return new TorchLayout(name as string);
}

/** Names of values in arguments and results of functions. */
export const torchGlobals: ReadonlyMap<string, PyName> = tableOf([
  new UdfClass(INTERNAL, 'PythonUDF'),
  new RemoteExceptionClass(INTERNAL, 'RemoteException'),
  internalPickler,
  new WorkerInfoClass('torch._C._distributed_rpc', 'WorkerInfo'),
  new PyFunction('torch._utils', '_rebuild_parameter', rebuildParameter),
  new PyFunction('torch', 'device', device),
  new PyFunction('torch', 'Size', size),
  new PyFunction('torch.serialization', '_get_layout', layout),
  ...generatedMethods,
]);

/** `torch.float32` and its like; undefined for other names. */
export function torchConstant(module: string, name: string): TorchDType | undefined {
  return module === 'torch' ? TorchDType.named(name) : undefined;
}
