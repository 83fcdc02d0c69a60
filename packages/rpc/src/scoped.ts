/** @file Runs a handler that wants its arguments and temporaries freed at its end. */
import { scope } from '@backwire/tensor';
import { adoptIntoScope, tensorsIn } from '@backwire/tensor/internal';
import { invoke, type Definition } from './definitions.ts';

/** The result outlives the scope, as does what the handler gave to `keep`. */
export function runInScope(definition: Definition, args: readonly unknown[]): unknown {
  return scope(() => {
    for (const tensor of tensorsIn(args)) adoptIntoScope(tensor);
    return invoke(definition, args);
  });
}
