/** @file Runs a handler that wants its arguments and temporaries freed at its end. */
import { scope } from '@backwire/tensor';
import { adoptIntoScope, tensorsIn } from '@backwire/tensor/internal';
import { invoke, type Definition } from './definitions.ts';

/** Runs a handler and gives what it returned to `use`: the scope lasts until what `use` returns has settled, and frees the result too. */
export function withScope<T>(definition: Definition, args: readonly unknown[], use: (result: unknown) => T): T {
  return scope(() => {
    for (const tensor of tensorsIn(args)) adoptIntoScope(tensor);
    return use(invoke(definition, args));
  });
}

/** The result outlives the scope, as does what the handler gave to `keep`. */
export function runInScope(definition: Definition, args: readonly unknown[]): unknown {
  return scope(() => {
    for (const tensor of tensorsIn(args)) adoptIntoScope(tensor);
    return invoke(definition, args);
  });
}
