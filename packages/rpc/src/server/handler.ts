/** @file How a handler is run: in a scope where it wants one, and what kind of thing it returned. */
import { scope, Tensor } from '@backwire/tensor';
import {
  adoptIntoScope,
  ambient,
  scopedIn,
  scopeFor,
  scopeHere,
  tensorsIn,
  type CurrentScope,
} from '@backwire/tensor/internal';
import { invoke, type Definition } from '../base/definitions.ts';
import { InboundCall } from './inbound-call.ts';
import { isStream, untilOver } from './scoped-stream.ts';

/** Runs a handler whose arguments become those of the scope it runs in. */
export function invokeAdopted(definition: Definition, args: readonly unknown[]): unknown {
  adoptArguments(args);
  return invoke(definition, args);
}

/** What becomes of a result: it stays here, answers the call that is current, or is iterated for that. */
export type Fate = 'stays' | 'answers' | 'streams';

/**
 * Runs `run` in a scope that has its arguments. The result outlives the scope, as does what was given to `keep`; what was made for one that
 * answers is freed with the call. A generator, or anything else that is iterated, has yet to begin then: what there is by then is freed
 * when it is over.
 */
export function runInScope<T>(args: readonly unknown[], run: () => T, fate: Fate = 'stays'): T {
  const body = (): T => {
    const own = scopeHere() as CurrentScope;
    const given = (value: unknown): unknown =>
      fate === 'streams' || isStream(value) ? untilOver(value, () => own.outlast()) : value;
    adoptArguments(args);
    const result = run();
    return (promiseOf(result)?.then(given) ?? given(result)) as T;
  };
  const { call } = ambient();
  return fate === 'answers' && call instanceof InboundCall ? scopeFor(call.spending, body) : scope(body);
}

/** Runs a handler, in a scope of its own where it wants one. */
export function runHandler(definition: Definition, args: readonly unknown[], fate: Fate): unknown {
  return definition.scope ? runInScope(args, () => invoke(definition, args), fate) : invoke(definition, args);
}

/** The tensors and references that came with the arguments are the scope's from now on. Looked at one by one: most are tensors themselves, or hold none. */
export function adoptArguments(args: readonly unknown[]): void {
  const { call } = ambient();
  const found = call instanceof InboundCall ? call.found : undefined;
  for (const arg of args) {
    if (typeof arg !== 'object' || arg === null) continue;
    if (found === undefined && arg instanceof Tensor && arg.sparse === undefined) adoptIntoScope(arg as Tensor);
    else for (const handle of scopedIn(arg)) if (found?.has(handle) !== true) adoptIntoScope(handle);
  }
}

/** Frees what came with arguments that no handler in a scope was given after all. */
export function freeUntaken(
  { scope: scoped }: Definition,
  args: readonly unknown[],
  found: ReadonlySet<unknown> | undefined,
): void {
  if (scoped) for (const tensor of tensorsIn(args)) if (found?.has(tensor) !== true) tensor.dispose();
}

/** Whether a handler gave a generator, which only a stream can take. */
export function isGenerator(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { next?: unknown }).next === 'function' &&
    (Symbol.asyncIterator in value || Symbol.iterator in value)
  );
}

/** A result that is still to come. A thenable that is no promise is wrapped: what its `then` throws is then a rejection. */
export function promiseOf(result: unknown): Promise<unknown> | undefined {
  if (result instanceof Promise) return result;
  if (typeof result !== 'object' || result === null || result instanceof Tensor) return undefined;
  return typeof (result as PromiseLike<unknown>).then === 'function' ? Promise.resolve(result) : undefined;
}
