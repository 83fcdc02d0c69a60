/** @file Pickles of torch's C++ side: any value is read as it was written; what it does not know is neither written nor read. */
import { tensor } from '@backwire/tensor';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ScriptDict, type ScriptList, scriptDict, scriptList, tupleOf } from '../values/containers.ts';
import { PyComplex, PyFloat } from '../values/numbers.ts';
import { RRefFork } from '../values/objects.ts';
import { TorchDevice } from '../values/torch-types.ts';
import { readScript, type ScriptContext } from './script-reader.ts';
import { ScriptWriter } from './script-writer.ts';

const context: ScriptContext = { tensors: [], rref: (fork) => fork, exact: true };
const t = tensor([1]);

function write(value: unknown): { bytes: Uint8Array; tensors: ScriptContext['tensors'] } {
  const writer = new ScriptWriter();
  writer.value(value);
  return { bytes: writer.finish(), tensors: writer.tensors };
}

const { value } = fc.letrec<{ value: unknown; leaf: unknown }>((tie) => ({
  leaf: fc.oneof(
    fc.constantFrom<unknown>(null, true, false, -0, Infinity, 0.1, t, new TorchDevice('cpu'), new PyComplex(1, 2)),
    fc.maxSafeInteger(),
    fc.double({ noInteger: true, noNaN: true }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).filter((n) => !Number.isSafeInteger(Number(n))),
    fc.integer().map((n) => new PyFloat(n)),
    fc.string({ unit: 'grapheme' }),
    fc.uint8Array({ minLength: 1, maxLength: 50 }).map((bytes) => Uint8Array.of(0x80, ...bytes)),
    fc.constant(new RRefFork(1, { worker: 0, local: 1 }, { worker: 0, local: 2 }, 0, 'int')),
  ),
  value: fc.oneof(
    { maxDepth: 4 },
    tie('leaf'),
    fc.array(tie('value'), { maxLength: 6 }).map((items) => tupleOf(items)),
    fc.array(tie('value'), { maxLength: 6 }).map((items) => scriptList('Any', items)),
    fc.array(fc.maxSafeInteger(), { maxLength: 6 }).map((items) => scriptList('int', items)),
    fc.array(fc.boolean(), { maxLength: 6 }).map((items) => scriptList('bool', items)),
    fc.array(fc.constant(t), { maxLength: 3 }).map((items) => scriptList('Tensor', items)),
    fc
      .array(fc.tuple(fc.string(), tie('value')), { maxLength: 5 })
      .map((entries) => scriptDict('str', 'Any', new Map(entries))),
  ),
}));

describe('any value', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(value, (v) => {
        const { bytes, tensors } = write(v);
        const again = readScript(bytes, { ...context, tensors });
        expect(again).toEqual(v);
        expect(write(again).bytes).toEqual(bytes);
      }),
      { seed: 20_260_703, numRuns: 1_000 },
    );
  });

  it('that is the same twice stays so', () => {
    const list = scriptList('int', [1]);
    const dict = scriptDict('str', 'int', [['a', 1]]);
    const { bytes, tensors } = write(tupleOf([list, list, dict, dict, t, t]));
    expect(tensors).toEqual([t]);
    const [a, b, c, d, x, y] = readScript(bytes, { ...context, tensors }) as unknown[];
    expect(a).toBe(b);
    expect(c).toBe(d);
    expect(x).toBe(t);
    expect(y).toBe(t);
  });

  it('of floats in a list is a float, whole or not', () => {
    const { bytes } = write(scriptList('float', [1, 2.5]));
    expect(readScript(bytes, context)).toEqual(scriptList<unknown>('float', [new PyFloat(1), 2.5]));
  });
});

describe('what is written', () => {
  it.each([
    ['an array', [1], /an array without a type of elements; use scriptList/],
    ['a Map', new Map(), /TorchScript has no form for a Map/],
    ['an object', { a: 1 }, /no form for a Object/],
    ['a function', () => 1, /no form for a function/],
    [
      'a list of ints with a float',
      tupleOf([scriptList('int', [1, 0.5])]),
      /a list of int holds a number at \[0\]\[1\]/,
    ],
    ['a list of ints with a large float', scriptList('int', [1e300]), /a list of int holds a number/],
    ['a list of bools with an int', scriptList('bool', [1]), /a list of bool holds a number at \[0\]/],
    ['a list of tensors with none', scriptList('Tensor', [null]), /a list of Tensor holds None at \[0\]/],
    ['an integer past 64 bits', 2n ** 63n, /does not fit 64 bits/],
  ])('%s is refused', (_, v, message) => {
    expect(() => write(v)).toThrow(message);
  });

  it('has only instructions that the C++ reader knows', () => {
    const many = tupleOf(Array.from({ length: 600 }, (_, i) => `text ${i}`));
    const { bytes } = write(tupleOf([many, scriptDict('str', 'int', [['k', 2 ** 40]]), t]));
    expect(readScript(bytes, { ...context, tensors: [t] })).toBeDefined();
    // LONG_BINPUT from the 257th remembered value on.
    expect(bytes.includes(0x72)).toBe(true);
  });
});

describe('what is read', () => {
  const pickle = (...parts: (number | string)[]): Uint8Array =>
    Uint8Array.from([
      0x80,
      2,
      ...parts.flatMap((part) => (typeof part === 'number' ? [part] : [...Buffer.from(part, 'latin1')])),
      0x2e,
    ]);
  const jit = (name: string): string => `ctorch.jit._pickle\n${name}\n`;
  const text = (value: string): string => `X${String.fromCharCode(value.length)}\0\0\0${value}`;
  const cases: [string, Uint8Array, RegExp][] = [
    ['another protocol', Uint8Array.of(0x80, 4, 0x4e, 0x2e), /begins with PROTO 4/],
    ['an instruction of Python', pickle(0x8c, 1, 'a'), /the instruction SHORT_BINUNICODE/],
    ['one item', pickle(']', 'N', 'a'), /the instruction APPEND/],
    ['an object', pickle(jit('build_intlist'), ')', 0x81), /the instruction NEWOBJ/],
    [
      'an object of a compiled class',
      pickle('c__torch__.app\nCounter\n', ')', 0x81),
      /an object of the TorchScript class 'app\.Counter' has no form here/,
    ],
    ['a persistent id', pickle('N', 'Q'), /the instruction BINPERSID/],
    ['a name of Python', pickle('cos\nsystem\n'), /names 'os.system'/],
    ['a name of the table', pickle('ctorch._utils\n_rebuild_tensor_v2\n'), /names 'torch._utils._rebuild_tensor_v2'/],
    [
      'a list of ints with text',
      pickle(jit('build_intlist'), '(', ']', '(', text('a'), 'e', 't', 'R'),
      /with an element that is no int/,
    ],
    ['a list of bools with ints', pickle(jit('build_boollist'), '(', ']', '(', 'K', 1, 'e', 't', 'R'), /no bool/],
    ['a list of tensors with ints', pickle(jit('build_tensorlist'), '(', ']', '(', 'K', 1, 'e', 't', 'R'), /no Tensor/],
    ['a list of something else', pickle(jit('build_intlist'), '(', 'K', 1, 't', 'R'), /no list/],
    ['a tensor that is not there', pickle(jit('build_tensor_from_id'), '(', 'K', 0, 't', 'R'), /the place of a tensor/],
    [
      'the tag of a list on a dict',
      pickle(jit('restore_type_tag'), '}', text('List[int]'), 0x86, 'R'),
      /a dict with the tag of something else/,
    ],
    [
      'the tag of a dict on a list',
      pickle(jit('restore_type_tag'), ']', text('Dict[str, int]'), 0x86, 'R'),
      /a list with the tag of something else/,
    ],
    [
      'a tag on a number',
      pickle(jit('restore_type_tag'), 'K', 1, text('List[int]'), 0x86, 'R'),
      /neither list nor dict/,
    ],
    ['a device that is none', pickle('ctorch\ndevice\n', text('cpu;'), 0x85, 'R'), /no device/],
    ['a name of the prototype', pickle('c__proto__\nconstructor\n'), /names '__proto__.constructor'/],
  ];
  it.each(cases)('%s is refused', (_, bytes, message) => {
    expect(() => readScript(bytes, context)).toThrow(message);
  });

  it('strings that are no UTF-8 are bytes', () => {
    expect(readScript(pickle('X', 2, 0, 0, 0, 0x80, 4), context)).toEqual(Uint8Array.of(0x80, 4));
    expect(readScript(pickle('X', 2, 0, 0, 0, 0xc3, 0x28), context)).toEqual(Uint8Array.of(0xc3, 0x28));
    expect(readScript(pickle('X', 2, 0, 0, 0, 0xc3, 0xa9), context)).toBe('é');
    expect(readScript(pickle('X', 0, 0, 0, 0), context)).toBe('');
  });

  it('lists and dicts without a tag hold anything', () => {
    const list = readScript(pickle(']', '(', 'K', 1, 'N', 'e'), context) as ScriptList;
    expect([list.elementType, ...list]).toEqual(['Any', 1, null]);
    expect(readScript(pickle('}'), context)).toBeInstanceOf(ScriptDict);
  });
});
