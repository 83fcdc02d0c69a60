/** @file What a pickle calls again with arguments that it remembers is bounded by what is copied, not by its few bytes. */
import { describe, expect, it } from 'vitest';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { PyRecordClass } from '../values/objects.ts';
import { NO_NAMES, readPython, type PythonContext } from './python-reader.ts';

const context: PythonContext = { tensors: [], names: NO_NAMES, rref: (fork) => fork };
/** Reads a pickle of protocol 4. */
const read = (content: Uint8Array, more: Partial<PythonContext> = {}): unknown =>
  readPython(content, { ...context, ...more });
const pickle = (...parts: (number | string)[]): Uint8Array =>
  Buffer.concat(
    [0x80, 4, ...parts, '.'].map((part) => (typeof part === 'number' ? Buffer.of(part) : Buffer.from(part, 'latin1'))),
  );
const global = (module: string, name: string): string => `c${module}\n${name}\n`;

describe('a pickle that calls again what it remembers', () => {
  const u32 = (length: number): number[] => [0, 8, 16, 24].map((shift) => (length >> shift) & 0xff);
  /** A list of what `times` calls with the same arguments give, of five bytes each. */
  const again = (callee: string, argument: readonly (number | string)[], times: number): Uint8Array =>
    pickle('](', callee, 'q\x00', ...argument, '\x85q\x01', 'h\x00h\x01R'.repeat(times), 'e');
  const list = ['](', 'K\x01'.repeat(9_000), 'e'];
  const content = (code: string): (number | string)[] => [code, ...u32(600_000), 'a'.repeat(600_000)];

  it.each([
    ['a list', global('builtins', 'list'), list],
    ['a set', global('builtins', 'set'), list],
    ['a frozenset', global('builtins', 'frozenset'), list],
    ['a deque', global('collections', 'deque'), list],
    ['sizes', global('torch', 'Size'), list],
    ['a bytearray', global('builtins', 'bytearray'), content('B')],
    ['bytes of text', global('_codecs', 'encode'), content('X')],
  ])('gets no more copies of it than could have been sent: %s', (_, callee, argument) => {
    expect(read(again(callee, argument, 2))).toHaveLength(4); // callee, arguments, and two results
    expect(() => read(again(callee, argument, 500))).toThrow(/^limit: (items|bytes) of arguments in a pickle/);
  });

  it('gives no state to more objects', () => {
    const state = `}(${Array.from({ length: 200 }, (__, i) => `X\x03\x00\x00\x00${String(i).padStart(3, '0')}N`).join('')}u`;
    const made = (times: number): Uint8Array =>
      pickle('](', global('model', 'Point'), 'q\x00', state, 'q\x01', 'h\x00)\x81h\x01b'.repeat(times), 'e');
    const limits = { ...DEFAULT_TORCH_LIMITS, maxPickleOps: 20_000 };
    const known = {
      names: { ...NO_NAMES, find: (module: string, name: string) => new PyRecordClass(module, name) },
      limits,
    };
    expect(read(made(20), known)).toHaveLength(22);
    expect(() => read(made(200), known)).toThrow(/^limit: items of arguments in a pickle/);
  });
});
