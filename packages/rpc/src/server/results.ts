/** @file What kind of thing a handler returned. */
import { Tensor } from '@backwire/tensor';

/** Whether a handler is a generator, which only a stream can take. */
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
