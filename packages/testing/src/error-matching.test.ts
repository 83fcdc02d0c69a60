import { describe, expect, it } from 'vitest';
import { errorMatching } from './error-matching.ts';

class CodedError extends RangeError {
  override readonly name = 'CodedError';
  readonly code: string;
  readonly peer: { readonly name: string; readonly id: number } | undefined;
  constructor(code: string, message: string, peer?: { name: string; id: number }) {
    super(message);
    this.code = code;
    this.peer = peer;
  }
}
class Derived extends CodedError {}

const fail = (error: unknown) => (): void => {
  throw error;
};

describe('errorMatching', () => {
  const w1 = { name: 'w1', id: 1 };
  const expected = errorMatching(CodedError, { code: 'gone', message: 'has left', peer: { name: 'w1' } });

  it('matches the class with its code, a part of its words, and a part of its fields', async () => {
    const error = new CodedError('gone', "worker 'w1' has left the group", w1);
    expect(fail(error)).toThrow(expected);
    expect({ error }).toEqual({ error: expected });
    await expect(Promise.reject(error)).rejects.toThrow(expected);
    expect(fail(error)).toThrow(errorMatching(CodedError, { message: /^worker .* has left/ }));
  });

  it.each([
    ['another code', new CodedError('late', 'has left', w1)],
    ['other words', new CodedError('gone', 'has come', w1)],
    ['another peer', new CodedError('gone', 'has left', { name: 'w2', id: 2 })],
    ['no peer', new CodedError('gone', 'has left')],
    ['the class that it extends', Object.assign(new RangeError('has left'), { code: 'gone', peer: w1 })],
    ['a class that extends it', new Derived('gone', 'has left', w1)],
    ['no error', { code: 'gone', message: 'has left', peer: w1 }],
  ])('does not match %s', (_, error) => {
    expect(fail(error)).not.toThrow(expected);
    expect(error).not.toEqual(expected);
  });

  it('asks a matcher inside of the fields, such as that of a cause', () => {
    const cause = errorMatching(TypeError, { message: 'inner' });
    const outer = errorMatching(RangeError, { message: 'outer', cause });
    expect(new RangeError('outer', { cause: new TypeError('inner') })).toEqual(outer);
    expect(new RangeError('outer', { cause: new TypeError('another') })).not.toEqual(outer);
    expect(new RangeError('outer', { cause: new Error('inner') })).not.toEqual(outer);
    expect(new RangeError('outer')).not.toEqual(outer);
  });

  it('says what it expects', () => {
    expect(expected.toAsymmetricMatcher()).toBe(
      'CodedError { message: "has left", code: "gone", peer: {"name":"w1"} }',
    );
    expect(errorMatching(TypeError, { message: /^of/ }).toAsymmetricMatcher()).toBe('TypeError { message: /^of/ }');
  });
});
