/** @file The names by which classes of errors are known: those of a bundle are not those that were written. */
import { describe, expect, it } from 'vitest';
import { rpcName } from '@backwire/tensor';
import { decodeProto, errorProto } from '@backwire/wire/internal';
import { registerErrorType, RemoteError } from '../index.ts';
import { decodeFailure, encodeThrown } from '../session/error-codec.ts';
import { errorName } from './error-name.ts';
import { WorkerInfo } from './worker-info.ts';

// As a bundler that minifies leaves it: the name is one letter, the text in it is whole.
class t extends Error {
  static readonly [rpcName]: string = 'shop/OutOfStock';
}
class Of extends t {}
registerErrorType(t);

const thrown = (error: Error): Error => decodeFailure(encodeThrown(error), new WorkerInfo('shop', 1));

describe('a class of errors with an rpcName', () => {
  it('is known by it, here and on the wire', () => {
    expect(decodeProto(errorProto.Error, encodeThrown(new t('no tea')), 'error').name).toBe('shop/OutOfStock');
    expect(errorName(new t('no tea'))).toBe('shop/OutOfStock');
    expect(thrown(new t('no tea'))).toBeInstanceOf(t);
  });

  it('is not what extends it', () => {
    expect(thrown(new Of('half a tea'))).toBeInstanceOf(RemoteError);
    expect(thrown(new Of('half a tea'))).toMatchObject({ remoteName: 'Of' });
  });

  it('has it for itself', () => {
    registerErrorType(t);
    const other = class extends Error {
      static readonly [rpcName] = 'shop/OutOfStock';
    };
    expect(() => registerErrorType(other)).toThrow("error type 'shop/OutOfStock' is already registered");
  });

  it('is known by its own name where that is nothing', () => {
    class Empty extends Error {
      static readonly [rpcName] = '';
    }
    registerErrorType(Empty);
    expect(thrown(new Empty('x'))).toBeInstanceOf(Empty);
  });
});
