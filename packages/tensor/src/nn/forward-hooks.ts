/** @file Hooks around a module's `forward`. */
import { kindOf } from '../given.ts';

/** Gives the arguments to go on with, or nothing for those it got. */
export type PreHook = (args: readonly unknown[]) => readonly unknown[] | void;

/** Gives the result to go on with, or nothing for the one it got. */
export type PostHook = (args: readonly unknown[], output: unknown) => unknown;

/** Those of one module, which run in the order they came in. */
interface Hooks {
  readonly before: Set<PreHook>;
  readonly after: Set<PostHook>;
}

const known = new WeakMap<object, Hooks>();

/** The hooks of a module; with the first its `forward` becomes one that calls them. */
export function hooksOf(module: object): Hooks {
  const had = known.get(module);
  if (had !== undefined) return had;
  const { forward } = module as { forward?: (...args: unknown[]) => unknown };
  if (forward === undefined) throw new TypeError(`${module.constructor.name} has no forward to put a hook on`);
  const hooks: Hooks = { before: new Set(), after: new Set() };
  known.set(module, hooks);
  const hooked = (...given: unknown[]): unknown => {
    const args = argumentsAfter(hooks, given);
    const output = forward.apply(module, [...args]);
    if (output instanceof Promise) return output.then((value: unknown) => resultAfter(hooks, args, value));
    return resultAfter(hooks, args, output);
  };
  // No field: it is nothing to save or to list.
  Object.defineProperty(module, 'forward', { value: hooked, writable: true, configurable: true, enumerable: false });
  return hooks;
}

function argumentsAfter({ before }: Hooks, given: readonly unknown[]): readonly unknown[] {
  let args = given;
  for (const hook of [...before]) {
    const next: unknown = hook(args) ?? args;
    if (!Array.isArray(next))
      throw new TypeError(`a hook before forward gives a list of arguments, or nothing; got ${kindOf(next)}`);
    args = next;
  }
  return args;
}

function resultAfter({ after }: Hooks, args: readonly unknown[], output: unknown): unknown {
  let result = output;
  for (const hook of [...after]) result = hook(args, result) ?? result;
  return result;
}
