/** @file Runs a handler that wants its arguments and temporaries freed at its end. */
import { scope, Tensor } from '@backwire/tensor';
import { adoptIntoScope, scopedIn } from '@backwire/tensor/internal';
import { invoke, type Definition } from '../base/definitions.ts';

/** Runs a handler whose arguments become those of the scope it runs in. */
export function invokeAdopted(definition: Definition, args: readonly unknown[]): unknown {
  adoptArguments(args);
  return invoke(definition, args);
}

/** The result outlives the scope, as does what the handler gave to `keep`. */
export function runInScope(definition: Definition, args: readonly unknown[]): unknown {
  return scope(() => invokeAdopted(definition, args));
}

/** The tensors and references in the arguments are the scope's from now on. Looked at one by one: most are tensors themselves, or hold none. */
export function adoptArguments(args: readonly unknown[]): void {
  for (const arg of args) {
    if (typeof arg !== 'object' || arg === null) continue;
    if (arg instanceof Tensor && arg.sparse === undefined) adoptIntoScope(arg as Tensor);
    else for (const handle of scopedIn(arg)) adoptIntoScope(handle);
  }
}
