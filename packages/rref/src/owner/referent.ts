/** @file What an RRef refers to, seen from its owner: the name of its type, the methods that peers may call, and second handles. */
import { Tensor } from '@backwire/tensor';
import { shareHandle, tensorsIn } from '@backwire/tensor/internal';
import { valueTypeOf } from '@backwire/wire/internal';
import { RpcError } from '@backwire/rpc';
import {
  runInScope,
  checkTensorsServed,
  definitionOfInstance,
  served,
  servedClassOf,
  type Definition,
  type Fate,
} from '@backwire/rpc/internal';
import { isHandle } from '../handle-brand.ts';

type Method = (...args: unknown[]) => unknown;

/** Methods of a tensor that are no business of another worker: they hand out local things or end the owner's own handle. */
const LOCAL_TENSOR_METHODS: ReadonlySet<string> = new Set([
  'constructor',
  'dispose',
  'toTf',
  'registerHook',
  'backward',
  'data',
  'dataSync',
]);

/** Containers inside containers that are copied for a second handle; what travels is bounded likewise. */
const MAX_DEPTH = 64;

/** The name of a value's type as peers see it: that of its definition, its class, or its primitive type. */
export function typeNameOf(value: unknown): string {
  if (value instanceof Tensor) return 'Tensor';
  if (isHandle(value)) return 'RRef';
  const definition = definitionOfInstance(value);
  if (definition !== undefined) return definition.name;
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  const constructor: unknown = (Object.getPrototypeOf(value) as { constructor?: unknown } | null)?.constructor;
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'Object';
}

/**
 * Calls a method of `value` that its class has published, one of its published static methods, or an operation of a tensor.
 * @throws TypeError "type object 'X' has no attribute 'y'" for any other name, whether it exists or not; RpcError 'permission-denied'
 *   for what the current agent does not serve.
 * @param fate what becomes of the result
 */
export function callMethod(value: unknown, name: string, args: readonly unknown[], fate: Fate = 'stays'): unknown {
  if (value instanceof Tensor) {
    checkTensorsServed(name, [value, ...args]);
    const own: unknown =
      LOCAL_TENSOR_METHODS.has(name) || name.startsWith('_') ? undefined : methodOf(Tensor.prototype, name);
    if (typeof own === 'function') return Reflect.apply(own as Method, value, args);
  } else {
    const definition = servedClassOf(value);
    if (definition?.methods.has(name) === true) {
      const method = methodOf(value as object, name);
      if (method !== undefined) {
        const run = (): unknown => Reflect.apply(method, value, args);
        return definition.scope ? runInScope(args, run, fate) : run();
      }
    }
    const fixed = definition === undefined ? undefined : staticOf(definition, name);
    if (fixed !== undefined) {
      const run = (): unknown => Reflect.apply(fixed.body as Method, fixed.self, args);
      return fixed.scope ? runInScope(args, run, fate) : run();
    }
  }
  throw new TypeError(`type object '${typeNameOf(value)}' has no attribute '${name}'${adviceFor(value)}`);
}

/** What may be called instead, or how to let it be. */
function adviceFor(value: unknown): string {
  if (value instanceof Tensor || typeof value !== 'object' || value === null) return '';
  const definition = definitionOfInstance(value);
  const type = typeNameOf(value);
  if (definition === undefined)
    return ` that peers may call: its class is not published. On its worker: rpcClass(${type}, { methods: [...] }), and static readonly [rpcName] = '...' in the class`;
  const methods = [...definition.methods].slice(0, MAX_NAMED_METHODS);
  const more = definition.methods.size - methods.length;
  const list = methods.length === 0 ? 'no methods' : methods.map((method) => `'${method}'`).join(', ');
  return ` that peers may call: rpcClass(${type}, { methods }) publishes ${list}${more > 0 ? ` and ${more} more` : ''}`;
}
const MAX_NAMED_METHODS = 20;

/** A published static method of a class; undefined for a name that means nothing, or something else. */
function staticOf({ name, body }: Definition, method: string): Definition | undefined {
  try {
    const found = served(`${name}.${method}`);
    return found.self === body ? found : undefined;
  } catch (error) {
    if (error instanceof RpcError && error.code === 'not-found') return undefined;
    throw error;
  }
}

/** The method of that name along the prototypes, never one of `Object.prototype`. */
function methodOf(target: object, name: string): Method | undefined {
  for (
    let at: object | null = target;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    const own = Object.getOwnPropertyDescriptor(at, name);
    if (own !== undefined) return typeof own.value === 'function' ? (own.value as Method) : undefined;
  }
  return undefined;
}

/**
 * For the owner's `toHere`: other handles of the same tensors, in containers of their own, so that the caller may dispose what it got.
 * The handle of a leaf is one of that leaf: it leads to the same gradient.
 */
export function secondHandle(value: unknown, depth = 0): unknown {
  if (value instanceof Tensor) return shareHandle(value as Tensor);
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return value;
  if (Array.isArray(value)) return value.map((item) => secondHandle(item, depth + 1));
  if (value instanceof Map) {
    return new Map([...(value as Map<unknown, unknown>)].map(([key, item]) => [key, secondHandle(item, depth + 1)]));
  }
  if (value instanceof Set) return new Set([...(value as Set<unknown>)].map((item) => secondHandle(item, depth + 1)));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return secondInstance(value, depth);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, secondHandle(item, depth + 1)]));
}

/** What travels by value and holds tensors is made again as it would be elsewhere; all other objects are themselves. */
function secondInstance(value: object, depth: number): unknown {
  const type = valueTypeOf(value);
  if (type === undefined) return value;
  const plain = type.encode(value);
  return tensorsIn(plain).size === 0 ? value : type.decode(secondHandle(plain, depth + 1));
}
