/** @file RemoteModules in pickles: what torch's `_remote_module_reducer` writes and its `_remote_module_receiver` reads. */
import { PyName } from '../values/name.ts';
import { SerializedRemoteModule } from '../values/objects.ts';
import { integerIn } from './builtin-globals.ts';
import { quoted, refuse } from './refusal.ts';
import { fieldsOf, forkOf } from './rref-fields.ts';

/** The function that makes a RemoteModule of its fields; it is called with them as arguments. */
export const receiver = new PyName('torch.distributed.nn.api.remote_module', '_remote_module_receiver');
/** What reads a module that TorchScript has compiled, code and all: there is nothing here that runs it. */
export const scriptModuleReceiver = new PyName(receiver.module, '_recursive_script_module_receiver');

/** What torch generates for every module that has no interface of TorchScript. */
export const generatedMethods: readonly PyName[] = ['forward_async', 'forward'].map(
  (name) => new PyName('_remote_module_non_scriptable', name),
);

const FIELDS = 6;
/** Names of devices are shorter. */
const MAX_DEVICE_CHARS = 32;
const MAX_NAME_CHARS = 127;

/** What travels of a RemoteModule, of the fields on, device, is_device_map_set, is_scriptable, generated_methods and module_rref. */
export function remoteModuleIn(fields: readonly unknown[]): SerializedRemoteModule {
  if (fields.length !== FIELDS) throw refuse(`a RemoteModule of ${fields.length} fields, not ${FIELDS}`);
  const [on, device, isDeviceMapSet, isScriptable, methods, rref] = fields;
  if (typeof device !== 'string' || device.length > MAX_DEVICE_CHARS) throw refuse('a RemoteModule without a device');
  if (typeof isDeviceMapSet !== 'boolean') throw refuse('a RemoteModule that does not say whether devices are mapped');
  if (isScriptable !== false)
    throw refuse('a RemoteModule with an interface of TorchScript: send its module_rref instead');
  if (!Array.isArray(methods) || methods.length !== generatedMethods.length || !methods.every(isGenerated))
    throw refuse('a RemoteModule with methods of its own');
  return new SerializedRemoteModule(workerIn(on), device, forkOf(rref));
}

/** The fields of a RemoteModule. No worker of this kind maps devices, so that torch brings results to the cpu. */
export function fieldsOfRemoteModule({ on, device, moduleRRef }: SerializedRemoteModule): readonly unknown[] {
  return [on, device, false, false, generatedMethods, fieldsOf(moduleRRef)];
}

function isGenerated(method: unknown, i: number): boolean {
  const { module, name } = generatedMethods[i] as PyName;
  return method instanceof PyName && method.module === module && method.name === name;
}

function workerIn(on: unknown): string | number {
  if (typeof on !== 'string') return integerIn(on, 0, 0x7fff, 'the rank of a RemoteModule');
  if (on === '' || on.length > MAX_NAME_CHARS) throw refuse(`a RemoteModule on ${quoted(on)}, which is no worker`);
  return on;
}
