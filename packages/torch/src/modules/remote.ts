/** @file `RemoteModule` on workers of Python: made, run and asked by torch's own functions for it. */
import { RemoteModule } from '@backwire/dist-autograd';
import { remoteModuleOver, type RemoteModules } from '@backwire/dist-autograd/internal';
import { RpcError, remoteFunction, type CallOptions, type To } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import type { Named, Parameter } from '@backwire/tensor';
import { PY_PREFIX, argumentsOf, targetOf } from '../calls/targets.ts';
import type { RemoteModuleHandles } from '../calls/values.ts';
import { tupleOf } from '../values/containers.ts';
import type { PyName } from '../values/name.ts';
import { torchModule } from '../values/module-names.ts';

const MODULE = 'torch.distributed.nn.api.remote_module';
const FORWARD = '_remote_module_non_scriptable._remote_forward';

export interface RemoteModuleHost {
  remote(to: To, fn: Named, args: readonly unknown[], options: CallOptions): RRef<unknown>;
  /** Calls a function of torch's own. */
  call(to: To, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown>;
}

export function remoteModules(host: RemoteModuleHost): RemoteModules {
  const create = remoteFunction(`${PY_PREFIX}${MODULE}._create_module`);
  return {
    create(to, name, args, device, options) {
      const { positional, kwargs } = apart(args);
      return host.remote(to, create, [classOf(name), tupleOf(positional), kwargs, device], options);
    },
    forward(rref, args, device, options) {
      return host.call(rref.owner(), FORWARD, [rref, device, false, ...args], options);
    },
    async parameters(rref, recurse) {
      return (await host.call(rref.owner(), `${MODULE}._param_rrefs`, [rref, recurse], {})) as RRef<Parameter>[];
    },
    async train(rref, mode) {
      const invoke = 'torch.distributed.rpc.rref_proxy._local_invoke';
      // What it returns is the module itself: a call of the result is not asked for.
      await host
        .remote(rref.owner(), remoteFunction(PY_PREFIX + invoke), [rref, 'train', tupleOf([mode]), new Map()], {})
        .confirmed();
    },
  };
}

/** RemoteModules in messages. `modules` is there before the first of them. */
export function remoteModuleHandles(modules: () => RemoteModules): RemoteModuleHandles {
  return {
    over: (rref, device) => remoteModuleOver(rref as RRef<unknown>, device, modules()),
    partsOf(value) {
      if (!(value instanceof RemoteModule)) return undefined;
      const rref = value.getModuleRRef();
      const on = rref.ownerName();
      return { rref, on, device: value.remoteDevice.slice(on.length + 1) };
    },
  };
}

/** The class as Python has it: one named by `py`, or torch's for one of `nn`. */
function classOf(name: string): PyName {
  const target = targetOf(name);
  const found = name.startsWith(PY_PREFIX) && target.kind === 'python' ? target.name : torchModule(name);
  if (found !== undefined) return found;
  throw new RpcError(
    'invalid-argument',
    `Python has no module class for '${name}': name its own with py('module.Class')`,
  );
}

/** Options at the end go by name. */
function apart(args: readonly unknown[]): { positional: readonly unknown[]; kwargs: ReadonlyMap<string, unknown> } {
  const { positional, kwargs } = argumentsOf(args);
  const last = positional.at(-1);
  if (kwargs.size > 0 || typeof last !== 'object' || last === null || Object.getPrototypeOf(last) !== Object.prototype)
    return { positional, kwargs };
  const named = Object.entries(last).map(
    ([key, value]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value as unknown] as const,
  );
  return { positional: positional.slice(0, -1), kwargs: new Map(named) };
}
