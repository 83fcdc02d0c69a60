/** @file The word for a failure. */
import { describe, expect, it } from 'vitest';
import { classNameOf, errorName } from './error-name.ts';
import { RemoteError, RpcError } from './errors.ts';
import { system } from './system-error.ts';

class OutOfStock extends Error {}
class Own extends RpcError {}

const remote = (remoteName: string): RemoteError => new RemoteError('x', { remoteName, remoteStack: undefined });

describe('the word for a failure', () => {
  it('is the same where a bundler has given the classes other names', () => {
    const names = [RpcError, RemoteError].map((made) => [made, made.name] as const);
    try {
      for (const [made] of names) Object.defineProperty(made, 'name', { value: 'e', configurable: true });
      expect(errorName(new RpcError('deadline-exceeded', 'x'))).toBe('deadline-exceeded');
      expect(errorName(remote('OutOfStock'))).toBe('OutOfStock');
      expect(classNameOf(new RpcError('deadline-exceeded', 'x'))).toBe('RpcError');
      expect(classNameOf(remote('OutOfStock'))).toBe('RemoteError');
      expect(errorName(new Own('not-found', 'x'))).toBe('Own');
    } finally {
      for (const [made, name] of names) Object.defineProperty(made, 'name', { value: name, configurable: true });
    }
  });

  it.each<[thrown: unknown, word: string]>([
    [new RpcError('deadline-exceeded', 'x'), 'deadline-exceeded'],
    [new OutOfStock('no tea'), 'OutOfStock'],
    [new RangeError('x'), 'RangeError'],
    [new RangeError('x', { cause: remote('RangeError') }), 'RangeError'],
    // Made again from what another worker threw, and thrown on there for a reason of its own.
    [new OutOfStock('x', { cause: new RpcError('unavailable', 'y') }), 'OutOfStock'],
    [remote('OutOfStock'), 'OutOfStock'],
    [new Own('not-found', 'x'), 'Own'],
    [system(new Own('not-found', 'x')), 'not-found'],
    [Object.assign(new Error('x'), { name: 'ValidationError' }), 'ValidationError'],
    [new DOMException('x', 'TimeoutError'), 'TimeoutError'],
    ['a text with a secret', 'string'],
    [undefined, 'undefined'],
    [{ name: 'secret' }, 'object'],
  ])('%o is %s', (thrown, word) => {
    expect(errorName(thrown)).toBe(word);
  });

  it('is short, and there is one whatever is thrown', () => {
    expect(errorName(remote('x'.repeat(1_000)))).toHaveLength(256);
    const throwing = new Proxy(new Error('x'), {
      get: () => {
        throw new Error('in a getter');
      },
      getPrototypeOf: () => {
        throw new Error('in a trap');
      },
    });
    expect(errorName(throwing)).toBe('object');
    for (const name of [5, null, Symbol('x')]) expect(errorName(Object.assign(new Error('x'), { name }))).toBe('Error');
    expect(errorName(Object.defineProperty(new Error('x'), 'constructor', { value: undefined }))).toBe('Error');
    expect(errorName(Object.assign(Object.create(Error.prototype), { constructor: 5, name: {} }))).toBe('Error');
  });
});
