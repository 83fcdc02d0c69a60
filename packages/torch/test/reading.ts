/** @file Reads captured messages whole, with every name offered as a record. */
import { PyName } from '../src/values/name.ts';
import { PyAttribute, PyRecordClass } from '../src/values/objects.ts';
import type { TensorLike } from '../src/values/opaque-tensor.ts';
import { Tensor } from '@backwire/tensor';
import { readRequest, readResponse } from '../src/messages/codec.ts';
import type { Body, TorchCommand } from '../src/messages/commands.ts';
import { readPython, type OfferedNames } from '../src/pickle/python-reader.ts';
import { buildEntries } from '../src/table/build.ts';
import { readTable } from '../src/table/entries.ts';
import type { CapturedMessage } from './captures.ts';
import { CommandDescriber, computed } from './describe.ts';

const MODULES: ReadonlySet<string> = new Set([
  'capfns',
  'nets',
  'stock_worker',
  'only_here',
  '_remote_module_non_scriptable',
  'torch.distributed.rpc.api',
  'torch.distributed.rpc.rref_proxy',
  'torch.distributed.rpc._utils',
  'torch.distributed.rpc.backend_registry',
  'torch.distributed.nn.api.remote_module',
  'torch.distributed.optim.optimizer',
  'torch.distributed.optim.functional_sgd',
  'torch.nn.modules.linear',
]);
const SINGLE: ReadonlySet<string> = new Set([
  'builtins.min',
  'builtins.len',
  'torch._C.TensorBase',
  'torch.distributed.rpc.internal.RPCExecMode',
]);

/** Those of them that torch has, and does not load by itself. */
export const torchModules: readonly string[] = [...MODULES].filter((name) => name.startsWith('torch.'));

/** Names of the programs, and torch's own that they call. */
export const names: OfferedNames = {
  find: (module, name) =>
    MODULES.has(module) || SINGLE.has(`${module}.${name}`) ? new PyRecordClass(module, name) : undefined,
  attribute: (owner, name) =>
    owner instanceof PyName || typeof owner === 'object' ? new PyAttribute(owner, name) : undefined,
};

const context = { names, rref: (fork: unknown) => fork, exact: true };

/** What a pickle of Python's side says, so that it is written again as what it was. */
export function python(pickled: Uint8Array, tensors: Body['tensors']): unknown {
  return readPython(pickled, { ...context, tensors });
}

/** What a body says, its pickles unread. */
export function command(body: Body): TorchCommand {
  return (body.type & 0x200) === 0 ? readRequest(body, context) : readResponse(body, context);
}

/** The body of a captured message, with tensors over copies of its storages. */
export function bodyOf(message: CapturedMessage): Body & { readonly tensors: readonly TensorLike[] } {
  const { type, body, table, storages } = message;
  const entries = readTable(
    table,
    storages.map((storage) => storage.length),
  );
  const tensors = buildEntries(
    entries,
    storages.map((storage) => storage.slice()),
  );
  entries.forEach(({ conjugate, negative }, i) => {
    const tensor = tensors[i];
    if ((conjugate || negative) && tensor instanceof Tensor) computed.add(tensor);
  });
  return { type, body, tensors };
}

/** What a body says, as text. */
export function textOf(body: Body): string {
  return new CommandDescriber({ python, command }).text(body);
}
