/** @file What the tensor package lends to peers: its operations by their torch name, and the classes of nn and optim. */
import * as tensor from '@backwire/tensor';
import { rpcName } from '@backwire/tensor';

type Operation = (...args: unknown[]) => unknown;
type Ctor = abstract new (...args: never[]) => unknown;

let operations: ReadonlyMap<string, Operation> | undefined;
/** Those that may be made by name: 'nn.Linear'. */
let byName: ReadonlyMap<string, Ctor> | undefined;
/** Those, and the others, which a program has to make (nn.Sequential, of modules): their methods may be called all the same. */
let names: ReadonlyMap<unknown, string> | undefined;

/** The operation with this torch name ('aten::add'); undefined when there is none. */
export function builtinOperation(name: string): Operation | undefined {
  if (!name.includes('::')) return undefined;
  return (operations ??= collect()).get(name);
}

/** The class of nn or optim that peers know by this name. */
export function builtinClass(name: string): Ctor | undefined {
  return (byName ??= namedClasses()).get(name);
}

/** The name of a class of nn or optim; undefined for any other. */
export function builtinClassName(ctor: unknown): string | undefined {
  return (names ??= new Map([...classes()].map(([name, each]) => [each, name]))).get(ctor);
}

function collect(): ReadonlyMap<string, Operation> {
  const found = new Map<string, Operation>();
  for (const value of [...Object.values(tensor as Record<string, unknown>), ...Object.values(tensor.sparse)]) {
    if (typeof value !== 'function' || !Object.hasOwn(value, rpcName)) continue;
    const name = (value as unknown as tensor.Named)[rpcName];
    if (name.includes('::')) found.set(name, value as Operation);
  }
  return found;
}

/**
 * Peers send what they like, and operations read their first argument before they check it: the words are to be ours.
 * @throws TypeError for one that is no tensor and no list of tensors; only an einsum begins with a text.
 */
export function checkFirst(name: string, [first]: readonly unknown[]): void {
  if (name === 'aten::einsum' && typeof first === 'string') return;
  const given: readonly unknown[] = Array.isArray(first) ? first : [first];
  const odd = given.findIndex((each) => !(each instanceof tensor.Tensor));
  if (odd === -1) return;
  const what = given[odd] === null ? 'null' : typeof given[odd];
  throw new TypeError(
    `${name} failed to match any schema: its first argument is a tensor, or a list of tensors, not ${Array.isArray(first) ? `a list with ${what} in it` : what}`,
  );
}

function namedClasses(): ReadonlyMap<string, Ctor> {
  const found = new Map<string, Ctor>();
  for (const [name, ctor] of classes())
    if (Object.hasOwn(ctor, rpcName) && (ctor as unknown as tensor.Named)[rpcName] === name) found.set(name, ctor);
  return found;
}

/** The bases are no classes of their own: who extends one is known by its own name, or not at all. */
function* classes(): Generator<[string, Ctor]> {
  const { nn, optim } = tensor;
  for (const [space, members] of Object.entries({ nn, optim })) {
    for (const [key, value] of Object.entries<unknown>(members)) {
      if (typeof value !== 'function') continue;
      const { prototype } = value as { prototype?: unknown };
      if (prototype instanceof nn.Module || prototype instanceof optim.Optimizer)
        yield [`${space}.${key}`, value as unknown as Ctor];
    }
  }
}
