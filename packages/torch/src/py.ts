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

/**
 * The function or class that Python imports as `path`, for `rpcSync`, `rpcAsync` and `remote` to a Python worker:
 * `py<(x: Tensor) => Tensor>('model.predict')`, `py<Net>('model.Net')`.
 * @throws RpcError 'invalid-argument' for what is no path.
 */
export function py<T = AnyFn>(path: string): PyNamed<T> {
  return remoteFunction(PY_PREFIX + checkPath(path)) as unknown as PyNamed<T>;
}

/** The TorchScript function that Python has compiled as `path`: it runs without Python's lock, and takes what TorchScript knows. */
py.script = <T = AnyFn>(path: string): PyNamed<T> =>
  remoteFunction(SCRIPT_PREFIX + checkPath(path)) as unknown as PyNamed<T>;

/**
 * The function that Python has decorated with `rpc.functions.async_execution`: a call gives what the future comes to that it returns.
 * Named as a plain function it fails, since a future cannot travel.
 */
py.asyncExecution = <T = AnyFn>(path: string): PyNamed<T> =>
  remoteFunction(ASYNC_PREFIX + checkPath(path)) as unknown as PyNamed<T>;

/** Keyword arguments: the last of a call's arguments. */
py.kwargs = (entries: Readonly<Record<string, unknown>>): PyKwargs => new PyKwargs(entries);

/** A float, also where the number is whole. */
py.float = (value: number): PyFloat => new PyFloat(value);

/** A tuple. */
py.tuple = <T>(...items: T[]): PyTuple<T> => fill(new PyGivenTuple<T>(), items);
