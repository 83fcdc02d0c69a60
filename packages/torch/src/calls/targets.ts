/** @file What a call names: a function of Python, a TorchScript function, an operator, or a function of another worker here. */
import { show } from '@backwire/rpc/internal';
import { quoted } from '../pickle/refusal.ts';
import { PyTuple, tupleOf } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PythonUdf } from '../values/objects.ts';

export const PY_PREFIX = 'py:';
/** Before the path of a function that Python has decorated with `rpc.functions.async_execution`. */
export const ASYNC_PREFIX = `${PY_PREFIX}async:`;
export const SCRIPT_PREFIX = '__torch__.';
const OPERATOR_PREFIX = 'aten::';

/** Keyword arguments, the last of a call's arguments. */
export class PyKwargs {
  readonly entries: ReadonlyMap<string, unknown>;

  /** @throws TypeError for what is no object of names and values. */
  constructor(entries: Readonly<Record<string, unknown>>) {
    if (typeof entries !== 'object' || entries === null || Symbol.iterator in entries)
      throw new TypeError(`keyword arguments are an object, as in py.kwargs({ dim: 0 }); got ${show(entries)}`);
    this.entries = new Map(Object.entries(entries));
  }
}

export type Target =
  | {
      readonly kind: 'python';
      readonly name: PyName;
      /** Its result is what the future comes to that it returns: Python does not look by itself. */
      readonly isAsync?: boolean;
    }
  /** A name without a module, which another worker of this kind has offered. */
  | { readonly kind: 'offered'; readonly name: string }
  | { readonly kind: 'script'; readonly name: string }
  | { readonly kind: 'operator'; readonly name: string };

/** Names that were called lately, with what they mean. */
const targets = new Map<string, Target>();
const MAX_TARGETS = 1_024;

/** What the name of a definition means to a torch group. */
export function targetOf(name: string): Target {
  const known = targets.get(name);
  if (known !== undefined) return known;
  const found = parsed(name);
  if (targets.size >= MAX_TARGETS) targets.clear();
  targets.set(name, found);
  return found;
}

function parsed(name: string): Target {
  if (name.startsWith(OPERATOR_PREFIX)) return { kind: 'operator', name };
  if (name.startsWith(SCRIPT_PREFIX)) return { kind: 'script', name };
  if (name.startsWith(ASYNC_PREFIX))
    return { kind: 'python', name: pyNameOf(name.slice(ASYNC_PREFIX.length)), isAsync: true };
  const path = name.startsWith(PY_PREFIX) ? name.slice(PY_PREFIX.length) : name;
  const dot = path.lastIndexOf('.');
  if (dot <= 0) return { kind: 'offered', name: path };
  return { kind: 'python', name: pyNameOf(path) };
}

/** Modules are written small, classes are not: 'model.Net.forward' is `Net.forward` of the module `model`. */
function pyNameOf(path: string): PyName {
  const parts = path.split('.');
  const firstClass = parts.findIndex((part, i) => i > 0 && /^_*[A-Z]/.test(part));
  const at = firstClass < 0 ? parts.length - 1 : Math.min(firstClass, parts.length - 1);
  return new PyName(parts.slice(0, at).join('.'), parts.slice(at).join('.'));
}

const methodCaller = new PyName('operator', 'methodcaller');

/** Takes the keyword arguments from the end of a call's arguments. */
export function argumentsOf(args: readonly unknown[]): {
  readonly positional: readonly unknown[];
  readonly kwargs: ReadonlyMap<string, unknown>;
} {
  const last = args.at(-1);
  if (!(last instanceof PyKwargs)) return { positional: args, kwargs: NO_KWARGS };
  return { positional: args.slice(0, -1), kwargs: last.entries };
}

const NO_KWARGS: ReadonlyMap<string, unknown> = new Map();

/** Whether the callee's result is a future's. */
export function isAsyncCall(target: Target): boolean {
  return target.kind === 'python' && target.isAsync === true;
}

/** The call of a function as Python's side has it. What has no module travels as `operator.methodcaller(name, …)`. */
export function udfOf(target: Target & { readonly kind: 'python' | 'offered' }, args: readonly unknown[]): PythonUdf {
  const { positional, kwargs } = argumentsOf(args);
  if (target.kind === 'python') return new PythonUdf(target.name, tupleOf(positional), kwargs);
  return new PythonUdf(methodCaller, tupleOf([target.name, ...positional]), kwargs);
}

/** What a call that came names: a function, or for `operator.methodcaller` the name in its first argument. */
export function calleeOf({ func, args }: PythonUdf): { readonly callee: unknown; readonly args: readonly unknown[] } {
  if (!(func instanceof PyName) || func.module !== methodCaller.module || func.name !== methodCaller.name)
    return { callee: func, args };
  const [name, ...rest] = args;
  if (typeof name !== 'string') throw new TypeError('operator.methodcaller without a name');
  return { callee: name, args: rest };
}

/** Arguments with the keyword ones, where there are any, as one object at their end. */
export function withKwargs(args: readonly unknown[], kwargs: ReadonlyMap<unknown, unknown>): readonly unknown[] {
  if (kwargs.size === 0) return args instanceof PyTuple ? [...args] : args;
  const named: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of kwargs) named[String(key)] = value;
  return [...args, { ...named }];
}

/** What profiles call a target: functions of Python without their module. */
export function plainName(target: Target): string {
  return target.kind === 'python' ? target.name.name : target.name;
}

/** For messages. */
export function shownTarget(callee: unknown): string {
  return callee instanceof PyName ? quoted(callee.path) : quoted(String(callee));
}
