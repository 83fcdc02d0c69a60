/** @file Runs a handler that wants its arguments and temporaries freed at its end. */
import { scope, Tensor } from '@backwire/tensor';
import * as internal from '@backwire/tensor/internal';
import { invoke, type Definition } from './definitions.ts';

/** Containers inside containers of arguments; they were decoded under the same bound. */
const MAX_DEPTH = 64;

/** The result outlives the scope, as does what the handler gave to `keep`. */
export function runInScope(definition: Definition, args: readonly unknown[]): unknown {
  return scope(() => {
    for (const tensor of tensorsIn(args, 0)) adopt(tensor);
    return invoke(definition, args);
  });
}

const adopt = (internal as { noteCreated?: (tensor: Tensor) => void }).noteCreated ?? ((): void => undefined);

function* tensorsIn(value: unknown, depth: number): Generator<Tensor> {
  if (value instanceof Tensor) yield value;
  else if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return;
  else if (Array.isArray(value) || value instanceof Set) for (const inner of value) yield* tensorsIn(inner, depth + 1);
  else if (value instanceof Map) for (const inner of value.values()) yield* tensorsIn(inner, depth + 1);
  else if (isPlain(value)) for (const inner of Object.values(value)) yield* tensorsIn(inner, depth + 1);
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
