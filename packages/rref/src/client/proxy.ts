/** @file Objects whose methods run elsewhere; and answers that are a promise and, when the method streams, a generator too. */
import { ASYNC_DISPOSE } from '@backwire/tensor/internal';

/** What a call through a proxy comes to. */
export type Call = (method: string, args: readonly unknown[]) => unknown;

/**
 * An object that answers every method name with a function. Symbols, `then`, `toJSON` and the names of `Object.prototype` are
 * undefined, so that printing, awaiting, comparing or returning a proxy calls nobody.
 */
export function createProxy(call: Call): object {
  return new Proxy(Object.freeze(Object.create(null) as object), {
    get: (_target, key) => (isMethodName(key) ? (...args: unknown[]): unknown => call(key, args) : undefined),
    has: (_target, key) => isMethodName(key),
    getPrototypeOf: () => null,
  });
}

function isMethodName(key: string | symbol): key is string {
  return typeof key === 'string' && key !== 'then' && key !== 'toJSON' && !(key in Object.prototype);
}

/** A promise that can also be iterated, when what it resolves to is an async generator. */
export type Answer = Promise<unknown> & AsyncGenerator<unknown, void, void>;

/** Its method's name, for errors. */
const METHOD = Symbol('method');

type Named = Answer & { [METHOD]: string };

/** Shared by all answers: a call costs no closures of its own. */
const generator = {
  async next(this: Named): Promise<IteratorResult<unknown, void>> {
    return (await streamOf(this)).next();
  },
  async return(this: Named): Promise<IteratorResult<unknown, void>> {
    return (await streamOf(this)).return(undefined);
  },
  async throw(this: Named, error: unknown): Promise<IteratorResult<unknown, void>> {
    return (await streamOf(this)).throw(error);
  },
  [Symbol.asyncIterator](this: Named): Named {
    return this;
  },
  async [ASYNC_DISPOSE](this: Named): Promise<void> {
    await (await streamOf(this)).return(undefined);
  },
};

/**
 * Nobody here knows whether a method streams before its owner has said so. The answer serves both: awaited it gives the value,
 * iterated it gives the items. Iterating the answer of a method that does not stream fails with a TypeError.
 */
export function createAnswer(method: string, result: Promise<unknown>): Answer {
  const answer = Object.assign(result, generator) as unknown as Named;
  answer[METHOD] = method;
  return answer;
}

async function streamOf(answer: Named): Promise<AsyncGenerator<unknown, void, void>> {
  const value = await answer;
  if (typeof value !== 'object' || value === null || !(Symbol.asyncIterator in value)) {
    throw new TypeError(`method '${answer[METHOD]}' does not stream; await it instead`);
  }
  return value as AsyncGenerator<unknown, void, void>;
}
