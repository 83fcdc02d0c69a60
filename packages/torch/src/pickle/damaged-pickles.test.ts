/** @file Pickles that are damaged, or ask for too much. */
import { describe, expect, it } from 'vitest';
import { bytes, global, pickle, read } from '../../test/pickles.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { PyTuple } from '../values/containers.ts';
import { writePython } from './python-writer.ts';

describe('damage', () => {
  const cases: [string, Uint8Array, RegExp][] = [
    ['nothing', bytes(), /cut off/],
    ['another protocol', bytes(0x80, 1, 'N.'), /begins with PROTO 1/],
    ['no protocol', bytes('N.'), /begins with NONE/],
    ['no end', bytes(0x80, 4, 'N'), /has no end/],
    ['bytes after the end', bytes(0x80, 4, 'N.N'), /1 bytes after the end/],
    ['two values', pickle('N', 'N'), /ends with 2 values/],
    ['no value', pickle(), /ends with 0 values/],
    ['a mark that stays', pickle('(', 'N'), /ends with 1 values/],
    ['no mark', pickle('t'), /has no mark/],
    ['an empty stack', pickle(0x85), /empty stack/],
    ['taking through a mark', pickle('N', '(', 0x85), /empty stack/],
    ['an unknown instruction', pickle('i'), /has the instruction 0x69/],
    ['an instruction that copies', pickle('N', '2'), /has the instruction 0x32/],
    ['a persistent id', pickle('N', 'Q'), /has the instruction BINPERSID/],
    ['a memo with a gap', pickle('N', 'q', 1), /memo entry 1 follows entry -1/],
    ['a memo entry that is not there', pickle('h', 0), /memo entry 0 of 0/],
    ['text that is cut off', pickle('X', 5, 0, 0, 0, 'a'), /runs past its end/],
    ['text of four gigabytes', pickle('X', 0xff, 0xff, 0xff, 0xff), /runs past its end/],
    ['an integer that is cut off', pickle(0x8b, 0, 1, 0, 0, 1), /cut off/],
    ['bytes of 2^63', pickle(0x8e, 0, 0, 0, 0, 0, 0, 0, 0x80), /runs past its end/],
    ['text that is no UTF-8', pickle(0x8c, 1, 0xff), /not UTF-8/],
    ['a name without an end', pickle('cos'), /no end/],
    ['a name that is no text', pickle('K', 1, 'K', 2, 0x93), /no text/],
    ['an append to a tuple', pickle(')', 'N', 'a'), /no list/],
    ['an item of a list', pickle(']', 'N', 'N', 's'), /no dict/],
    ['a key without a value', pickle('}', '(', 'N', 'u'), /without a value/],
    ['an item for a frozenset', pickle('(', 0x91, '(', 'N', 0x90), /no set/],
    [
      'an object before its state',
      pickle(global('torch._C._distributed_rpc', 'WorkerInfo'), ')', 0x81, 0x94, 'h', 0, 0x86),
      /before its state/,
    ],
    [
      'an object without its state',
      pickle(global('torch._C._distributed_rpc', 'WorkerInfo'), ')', 0x81),
      /without its state/,
    ],
    [
      'a worker with a bad id',
      pickle(global('torch._C._distributed_rpc', 'WorkerInfo'), ')', 0x81, 0x8c, 1, 'w', 'M', 0, 0x80, 0x86, 'b'),
      /id of a WorkerInfo/,
    ],
    [
      'a compiled module',
      pickle(global('torch.distributed.nn.api.remote_module', '_recursive_script_module_receiver'), 'N', 0x85, 'R'),
      /a module that TorchScript has compiled has no form here/,
    ],
  ];
  it.each(cases)('%s is refused', (_, content, message) => {
    expect(() => read(content)).toThrow(message);
    expect(() => read(content)).toThrow(/^decode-error/);
  });

  const limits = (change: Partial<TorchLimits>): { limits: TorchLimits } => ({
    limits: { ...DEFAULT_TORCH_LIMITS, ...change },
  });
  it.each([
    ['instructions', pickle(...Array<string>(50).fill('N')), { maxPickleOps: 40 }, /instructions of a pickle/],
    [
      'objects',
      pickle(...Array<string>(50).fill(']')),
      { maxPickleObjects: 40 },
      /objects of a pickle \(41 over the limit of 40\)/,
    ],
    ['the stack', pickle(...Array<string>(50).fill('N')), { maxPickleStack: 40 }, /values on the stack/],
    ['marks', pickle(...Array<string>(50).fill('(')), { maxPickleMarks: 40 }, /marks of a pickle/],
    ['the memo', pickle('N', ...Array<number>(50).fill(0x94)), { maxPickleMemo: 40 }, /memo of a pickle/],
    [
      'integers',
      pickle(0x8b, 1, 0, 1, 0, '\x01'.repeat(65_537)),
      {},
      /integer in a pickle \(65537 over the limit of 65536\)/,
    ],
    ['names', pickle(global('m'.repeat(5_000), 'n')), {}, /name in a pickle \(5000 over the limit of 4096\)/],
  ] as const)('%s are bounded', (_, content, change, message) => {
    expect(() => read(content, limits(change))).toThrow(message);
    expect(() => read(content, limits(change))).toThrow(/^limit/);
  });

  it('a hundred thousand lists in lists are read without recursion', () => {
    const deep = pickle(']'.repeat(100_000), 'a'.repeat(99_999));
    expect(Array.isArray(read(deep))).toBe(true);
  });

  it('tuples are tuples, and their methods give lists', () => {
    const tuple = read(writePython(PyTuple.of(1, 2, 3)).bytes) as PyTuple<number>;
    expect(tuple).toBeInstanceOf(PyTuple);
    expect(tuple.map((n) => n * 2).constructor).toBe(Array);
  });
});
