/** @file How functions of PyTorch's test modules are offered under their own names, and what several of them need. */
import { rpcFunction, type AnyFn } from '@backwire/rpc';
import { add, sparseCooTensor, tensor, type DType, type Tensor } from '@backwire/tensor';
import { OfferedFunction } from '../../../src/calls/names.ts';
import { type PyComplex, tupleOf, type PyTuple } from '../../../src/index.ts';

export const RPC_TEST = 'torch.testing._internal.distributed.rpc.rpc_test';
export const AUTOGRAD_TEST = 'torch.testing._internal.distributed.rpc.dist_autograd_test';
export const OPTIMIZER_TEST = 'torch.testing._internal.distributed.rpc.dist_optimizer_test';
export const MODULE_TEST = 'torch.testing._internal.distributed.nn.api.remote_module_test';
export const DIST_UTILS = 'torch.testing._internal.dist_utils';

/** Offers functions under the names that they have in a module of torch's tests. */
export function offer(module: string, functions: Readonly<Record<string, AnyFn>>): void {
  // A function of its own for each name: some stand for one another here.
  for (const [name, fn] of Object.entries(functions))
    rpcFunction(`${module}.${name}`, (...args: never[]): unknown => fn(...args));
}

/** A function whose arguments may come by name: they are the last argument then, as one object. */
export function named<R>(names: readonly string[], fn: (...args: never[]) => R): AnyFn {
  return (...args: unknown[]) => {
    const last = args.at(-1);
    const given = typeof last === 'object' && last !== null && Object.getPrototypeOf(last) === Object.prototype;
    if (!given) return fn(...(args as never[]));
    const all = args.slice(0, -1);
    for (const [name, value] of Object.entries(last)) all[names.indexOf(name)] = value;
    return fn(...(all as never[]));
  };
}

export type Value = Tensor | number | PyComplex;

/** Python's `+`. */
export function plus(a: unknown, b: unknown): Value {
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (typeof a === 'number') return add(b as Tensor, a);
  return add(a as Tensor, b as Tensor | number);
}

/** Calls what came as a function of Python, by its name: a method with its object before its arguments. */
export function call(method: unknown, ...args: readonly unknown[]): unknown {
  if (!(method instanceof OfferedFunction)) throw new TypeError('what came is no function that is offered here');
  return (method.definition.body as (...all: unknown[]) => unknown)(...args);
}

export function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
}

/** The tensor, of which gradients are wanted from now on. */
export function requiring(x: Tensor): Tensor {
  x.requiresGrad = true;
  return x;
}

/** `build_sparse_tensor` of the test modules, each of which has its own values. */
export function sparse(values: readonly number[], shape: readonly [number, number], dtype: DType = 'float32'): Tensor {
  const indices = tensor(
    [
      [0, 1, 1],
      [2, 0, 2],
    ],
    { dtype: 'int64' },
  );
  return sparseCooTensor(indices, tensor([...values], { dtype }), [...shape]);
}

export function tuple(...items: unknown[]): PyTuple {
  return tupleOf(items);
}
