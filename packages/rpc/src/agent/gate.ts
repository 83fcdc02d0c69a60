/** @file What system functions ask before they run what others have defined: whether the current agent serves it. */
import { agentOf } from './current-agent.ts';
import { invoke, type Definition } from '../base/definitions.ts';
import { RpcError } from '../base/errors.ts';
import { system } from '../base/system-error.ts';

/** What `name` means here to peers. @throws RpcError 'not-found', 'permission-denied', as a call of that name would. */
export function served(name: string): Definition {
  return asked(() => agentOf().names.find(name));
}

/**
 * The published class of an object that lives here, whose methods peers may call; undefined when it has none.
 * @throws RpcError 'permission-denied' when it is not served.
 */
export function servedClassOf(instance: unknown): Definition | undefined {
  return asked(() => agentOf().names.classOf(instance));
}

/**
 * Asks before an operation of a tensor that lives here is called; the tensor is the first of `args`.
 * @throws RpcError 'permission-denied' when they are not served, 'resource-exhausted' when the result would be too large.
 */
export function checkTensorsServed(method: string, args: readonly unknown[]): void {
  asked(() => agentOf().names.checkTensors(method, args));
}

/** Calls what `served` found; what a builtin is to make is looked at first. @throws RpcError 'resource-exhausted' */
export function invokeServed(definition: Definition, args: readonly unknown[]): unknown {
  asked(() => agentOf().names.checkResult(definition, args));
  return invoke(definition, args);
}

/** A refusal is the worker's answer, not an error of what was called: it did not run. */
function asked<T>(ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    throw error instanceof RpcError ? system(error) : error;
  }
}
