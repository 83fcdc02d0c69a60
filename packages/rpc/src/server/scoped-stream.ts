/** @file The streams of handlers in a scope: what the scope has is freed when the stream is over, not when it was returned. */
import { Tensor } from '@backwire/tensor';
import type { Remains } from '@backwire/tensor/internal';
import { sourceOf } from './stream-source.ts';

type Step = IteratorResult<unknown> | Promise<IteratorResult<unknown>>;

/** Whether `value` is what a generator function gives, synchronous or not. */
export function isStream(value: unknown): value is AsyncGenerator | Generator {
  if (typeof value !== 'object' || value === null || value instanceof Tensor) return false;
  const { next, return: end, throw: fail } = value as { next?: unknown; return?: unknown; throw?: unknown };
  const generator = typeof next === 'function' && typeof end === 'function' && typeof fail === 'function';
  return generator && (Symbol.asyncIterator in value || Symbol.iterator in value);
}

/**
 * Something to be iterated that a scope gives: the same, at whose end what the scope has by now is freed. What is made for its items is
 * nobody's, since the scope of a stream without an end would hold all of that.
 */
export function untilOver(value: unknown, outlast: () => Remains): unknown {
  const source = sourceOf(value);
  if (source === undefined) return value;
  const remains = outlast();
  const seen = (result: IteratorResult<unknown>): IteratorResult<unknown> => {
    if (result.done === true) remains.free();
    return result;
  };
  const failed = (error: unknown): never => {
    remains.free();
    throw error;
  };
  const step = (ask: () => Step): Step => {
    try {
      const result = remains.run(ask);
      return result instanceof Promise ? result.then(seen, failed) : seen(result);
    } catch (error) {
      return failed(error);
    }
  };
  const stream = {
    next: (...given: [] | [unknown]) => step(() => source.next(...given)),
    return: (result?: unknown) => step(() => source.return?.(result) ?? { done: true, value: result }),
    throw: (error: unknown) => step(() => source.throw?.(error) ?? failed(error)),
  };
  const kind = Symbol.asyncIterator in (value as object) ? Symbol.asyncIterator : Symbol.iterator;
  return Object.assign(stream, { [kind]: () => stream });
}
