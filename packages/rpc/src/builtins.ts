/** @file The tensor operations that any worker serves, by their torch name. */
import * as tensor from '@backwire/tensor';
import { rpcName } from '@backwire/tensor';

type Operation = (...args: unknown[]) => unknown;

let table: ReadonlyMap<string, Operation> | undefined;

/** The operation with this torch name ('aten::add'); undefined when there is none. */
export function builtinOperation(name: string): Operation | undefined {
  if (!name.includes('::')) return undefined;
  return (table ??= collect()).get(name);
}

function collect(): ReadonlyMap<string, Operation> {
  const found = new Map<string, Operation>();
  for (const value of Object.values(tensor as Record<string, unknown>)) {
    if (typeof value !== 'function' || !Object.hasOwn(value, rpcName)) continue;
    const name = (value as unknown as tensor.Named)[rpcName];
    if (name.includes('::')) found.set(name, value as Operation);
  }
  return found;
}
