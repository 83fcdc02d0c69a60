/** @file RRefs and tensors in what passes a gateway: references change groups, gradients stay where they are. */
import { RpcError } from '@backwire/rpc';
import { systemError } from '@backwire/rpc/internal';
import { isRRef, type RRef } from '@backwire/rref';
import { ambient, scopedIn, tensorsIn } from '@backwire/tensor/internal';
import { PyKwargs } from '../calls/targets.ts';
import { PyGivenTuple, fill } from '../values/containers.ts';

/** The RRefs in a value. */
export function rrefsIn(value: unknown): RRef<unknown>[] {
  return [...scopedIn(value)].filter((each): each is typeof each & RRef<unknown> => isRRef(each));
}

/**
 * The value with others in the places of RRefs; itself where there are none. Containers on the way to one are made anew.
 * @throws TypeError for an RRef inside of an object that is no container.
 */
export function replaced(value: unknown, others: ReadonlyMap<object, unknown>): unknown {
  if (others.size === 0 || typeof value !== 'object' || value === null) return value;
  if (others.has(value)) return others.get(value);
  const inner = (item: unknown): unknown => replaced(item, others);
  if (Array.isArray(value)) {
    const items = value.map(inner);
    return value instanceof PyGivenTuple ? fill(new PyGivenTuple(), items) : items;
  }
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [inner(key), inner(item)]));
  if (value instanceof Set) return new Set([...value].map(inner));
  if (value instanceof PyKwargs) return new PyKwargs(Object.fromEntries(entriesOf(value.entries, inner)));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    if (rrefsIn(value).length === 0) return value;
    const text = `an RRef inside of a ${value.constructor.name} cannot pass a gateway: give it by itself, or in an array, a Map, a Set or a plain object`;
    throw new TypeError(text);
  }
  return Object.fromEntries(entriesOf(Object.entries(value), inner));
}

function entriesOf(
  entries: Iterable<readonly [string, unknown]>,
  inner: (item: unknown) => unknown,
): [string, unknown][] {
  return [...entries].map(([key, item]) => [key, inner(item)]);
}

/**
 * Gradients would have to pass, and would get lost without a word: a pass of one group goes nowhere in the other.
 * @throws RpcError 'failed-precondition'
 */
export function refuseGradients(value: unknown, what: string, executed: 'no' | 'yes'): void {
  if (ambient().contextId === undefined) return;
  if (![...tensorsIn(value)].some(({ requiresGrad }) => requiresGrad)) return;
  const way =
    executed === 'no'
      ? 'detach() them'
      : 'detach() them in Python, or make the call outside of the distributed autograd context';
  const text = `${what} has tensors that require gradients, which do not pass a gateway: ${way}; a worker that is a member of the torch group itself can differentiate through it`;
  throw systemError(new RpcError('failed-precondition', text, { executed }));
}
