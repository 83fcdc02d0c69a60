/** @file Names of Python, for calls from here: functions, classes, TorchScript functions; and keyword arguments. */
import { RpcError, remoteFunction, type AnyFn } from '@backwire/rpc';
import type { Named } from '@backwire/tensor';
import { PyFloat } from './values/numbers.ts';
import { PyGivenTuple, fill, type PyTuple } from './values/containers.ts';
import { ASYNC_PREFIX, PY_PREFIX, SCRIPT_PREFIX, PyKwargs } from './calls/targets.ts';

/** Something of Python that calls may name: a function as it is, a class or value by what calling it gives, of whatever arguments. */
export type PyNamed<T> = T extends AnyFn ? T & Named : ((...args: unknown[]) => T) & Named;

const PATH = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/u;

function checkPath(path: string): string {
  if (typeof path === 'string' && PATH.test(path)) return path;
  throw new RpcError('invalid-argument', `a name of Python is module.name, as in 'model.Net'; got '${String(path)}'`);
}

/** How things of Python are named, for `rpcSync`, `rpcAsync` and `remote` to a Python worker. */
export interface Py {
  /**
   * The function or class that Python imports as `path`: `py<(x: Tensor) => Tensor>('model.predict')`, `py<Net>('model.Net')`.
   * @throws RpcError 'invalid-argument' for what is no path.
   */
  <T = AnyFn>(path: string): PyNamed<T>;
  /** The TorchScript function that Python has compiled as `path`: it runs without Python's lock, and takes what TorchScript knows. */
  readonly script: <T = AnyFn>(path: string) => PyNamed<T>;
  /**
   * The function that Python has decorated with `rpc.functions.async_execution`: a call gives what the future comes to that it returns.
   * Named as a plain function it fails, since a future cannot travel.
   */
  readonly asyncExecution: <T = AnyFn>(path: string) => PyNamed<T>;
  /** Keyword arguments: the last of a call's arguments. */
  readonly kwargs: (entries: Readonly<Record<string, unknown>>) => PyKwargs;
  /** A float, also where the number is whole. */
  readonly float: (value: number) => PyFloat;
  /** A tuple. */
  readonly tuple: <T>(...items: T[]) => PyTuple<T>;
}

function named(prefix: string): <T = AnyFn>(path: string) => PyNamed<T> {
  return <T>(path: string) => remoteFunction(prefix + checkPath(path)) as unknown as PyNamed<T>;
}

/** Names of Python: functions and classes by `py('module.name')`, the rest by its methods. */
export const py: Py = Object.assign(named(PY_PREFIX), {
  script: named(SCRIPT_PREFIX),
  asyncExecution: named(ASYNC_PREFIX),
  kwargs: (entries: Readonly<Record<string, unknown>>): PyKwargs => new PyKwargs(entries),
  float: (value: number): PyFloat => new PyFloat(value),
  tuple: <T>(...items: T[]): PyTuple<T> => fill(new PyGivenTuple<T>(), items),
});
