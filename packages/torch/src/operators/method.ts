/** @file Methods of tensors that Python calls on an RRef: by the operators of the same names, as `Tensor` has them there. */
import type { Tensor } from '@backwire/tensor';
import { RpcError } from '@backwire/rpc';
import { TorchSize, fill } from '../values/containers.ts';
import { callOperator } from './call.ts';
import { overloadFor } from './choose.ts';

/**
 * What `tensor.method(*args, **kwargs)` gives in Python; undefined for a method that is no operator of the table.
 * @throws TypeError for arguments that no overload takes.
 */
export function tensorMethod(
  tensor: Tensor,
  method: string,
  args: readonly unknown[],
  kwargs: ReadonlyMap<string, unknown>,
): { readonly value: unknown } | undefined {
  if (method === 'size' && args.length === 0) return { value: fill(new TorchSize(), tensor.shape) };
  const name = `aten::${method}`;
  try {
    return { value: called(name, [tensor, ...args], kwargs) };
  } catch (error) {
    if (error instanceof RpcError && error.code === 'not-found') return undefined;
    // A shape may be given as so many arguments.
    if (!(error instanceof TypeError) || args.length === 0 || !args.every((arg) => Number.isInteger(arg))) throw error;
    return { value: called(name, [tensor, args], kwargs) };
  }
}

function called(name: string, args: readonly unknown[], kwargs: ReadonlyMap<string, unknown>): unknown {
  const { schema, values } = overloadFor(name, args, kwargs);
  return callOperator(schema, values);
}
