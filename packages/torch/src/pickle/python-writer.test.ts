/** @file What is written for Python: any value is read again as it was; what has no form is refused by its place. */
import { WorkerInfo } from '@backwire/rpc';
import { Parameter, nn, tensor } from '@backwire/tensor';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { names } from '../../test/reading.ts';
import {
  PyByteArray,
  PyDefaultDict,
  PyDeque,
  PyFrozenSet,
  PyOrderedDict,
  PyTuple,
  TorchSize,
  tupleOf,
} from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../values/numbers.ts';
import { PyInstance, RRefFork } from '../values/objects.ts';
import { ParameterData } from '../values/opaque-tensor.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from '../values/time.ts';
import { TorchDType, TorchDevice } from '../values/torch-types.ts';
import { readPython } from './python-reader.ts';
import { writePython } from './python-writer.ts';

/** Any value that Python has, as it comes from there. */
const { value } = fc.letrec<{ value: unknown; leaf: unknown; hashable: unknown; key: unknown }>((tie) => ({
  hashable: tie('leaf').filter((leaf) => !(leaf instanceof PyByteArray)),
  leaf: fc.oneof(
    fc.constantFrom<unknown>(null, true, false, -0, NaN, Infinity, 0.1, 1e300),
    fc.maxSafeInteger(),
    fc.integer(),
    fc.double({ noInteger: true }),
    fc.bigInt({ min: -(2n ** 2100n), max: 2n ** 2100n }).filter((n) => !Number.isSafeInteger(Number(n))),
    fc.maxSafeInteger().map((n) => new PyFloat(n)),
    fc.string({ unit: 'binary' }),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => new Uint8Array(bytes)),
    fc.uint8Array({ maxLength: 9 }).map((bytes) => new PyByteArray(bytes)),
    fc.tuple(fc.double({ noNaN: true }), fc.double({ noNaN: true })).map(([a, b]) => new PyComplex(a, b)),
    fc.tuple(fc.integer(), fc.integer(), fc.integer({ min: 1 })).map(([a, b, c]) => new PyRange(a, b, c)),
    fc.constantFrom<unknown>(
      TorchDType.named('int64'),
      new TorchDevice('cuda', 3),
      TorchSize.of(1, 2),
      new PyTimeDelta(1, 2, 3),
    ),
    fc
      .date({ noInvalidDate: true, min: new Date('0001-01-02'), max: new Date('9999-12-30') })
      .map((date) => PyDateTime.from(date)),
  ),
  key: fc.oneof(
    fc.string(),
    fc.integer(),
    fc.tuple(fc.integer(), fc.string()).map((pair) => tupleOf<unknown>(pair)),
  ),
  value: fc.oneof(
    { maxDepth: 4 },
    tie('leaf'),
    fc.array(tie('value'), { maxLength: 6 }),
    fc.array(tie('value'), { maxLength: 6 }).map((items) => tupleOf(items)),
    fc.array(fc.tuple(tie('key'), tie('value')), { maxLength: 5 }).map((entries) => new Map(entries)),
    fc.array(fc.tuple(fc.string(), tie('value')), { maxLength: 5 }).map((entries) => new PyOrderedDict(entries)),
    fc
      .array(fc.tuple(fc.string(), tie('value')), { maxLength: 5 })
      .map((entries) => Object.assign(new PyDefaultDict(entries), { factory: new PyName('capfns', 'f') })),
    fc.array(tie('hashable'), { maxLength: 5 }).map((items) => new Set(items)),
    fc.array(tie('hashable'), { maxLength: 5 }).map((items) => new PyFrozenSet(items)),
    fc.array(tie('value'), { maxLength: 5 }).map((items) => Object.assign(PyDeque.from(items), { maxLength: 5 })),
    fc.tuple(tie('value'), tie('value')).map(([a, b]) => new PySlice(a, b)),
    fc
      .array(tie('value'), { maxLength: 3 })
      .map((args) => new PyInstance(new PyName('capfns', 'Thing'), tupleOf(args), { state: new Map([['x', args]]) })),
  ),
}));

describe('any value', () => {
  it('is read as it was written', () => {
    const context = { tensors: [], names, rref: (fork: unknown) => fork, exact: true };
    fc.assert(
      fc.property(value, (v) => {
        const { bytes } = writePython(v);
        const again = readPython(bytes, context);
        expect(plain(again)).toEqual(plain(v));
        expect(writePython(again).bytes).toEqual(bytes);
      }),
      { seed: 20_260_702, numRuns: 1_000 },
    );
  });
});

/** Names that were offered come back as classes: only what they are called matters. */
function plain(v: unknown): unknown {
  if (typeof v !== 'object' || v === null) return v;
  if (v instanceof PyName) return v.path;
  const kind = v.constructor.name;
  if (v instanceof Map) return { kind, items: [...v].map(plain), factory: plain((v as PyDefaultDict).factory) };
  if (v instanceof Set) return { kind, items: [...v].map(plain) };
  if (v instanceof Uint8Array) return { kind, bytes: [...v] };
  if (Array.isArray(v)) return { kind, items: [...(v as unknown[])].map(plain), maxLength: (v as PyDeque).maxLength };
  return { kind, fields: Object.entries(v).map(([key, field]) => [key, plain(field)]) };
}

describe('what has no form', () => {
  class Own {}
  const cases: [string, unknown, string][] = [
    ['a function', { a: [1, () => 1] }, 'Python has no form for a function at .a[1]'],
    ['a symbol', [Symbol('s')], 'Python has no form for a symbol at [0]'],
    ['a class of its own', [[new Own()]], 'Python has no form for a Own at [0][0]'],
    ['a promise', Promise.resolve(), 'Python has no form for a Promise'],
    ['a typed array', { x: new Float32Array(2) }, 'Python has no form for a Float32Array at .x; make a tensor of it'],
    ['a Date', [new Date(0)], 'Python has no form for a Date at [0]; use PyDateTime.from'],
    [
      'a module',
      { layers: [new nn.Linear(1, 1)] },
      'Python has no form for a Linear at .layers[0]; send its stateDict(), or an RRef to it',
    ],
    [
      'a generator',
      { x: (function* () {})() },
      'Python has no form for a Generator at .x; send an array of what it yields',
    ],
    [
      'an async generator',
      (async function* () {})(),
      'Python has no form for a AsyncGenerator; send an array of what it yields',
    ],
    ['a WeakMap', new WeakMap(), 'Python has no form for a WeakMap'],
    ['an integer that is too long', [2n ** 524_288n], 'an integer of more than 65536 bytes at [0]'],
    ['an integer that is longer than any text', [1n << 600_000_000n], 'an integer of more than 65536 bytes at [0]'],
    ['a list in a set', { x: new Set([[1]]) }, 'Python takes no list as an item of a set at .x'],
    ['a dict in a frozenset', [new PyFrozenSet([new Map()])], 'Python takes no dict as an item of a set at [0]'],
    ['a plain object as a key', [new Map([[{}, 1]])], 'Python takes no dict as a key of a dict at [0]'],
    ['a set as a key', new Map([[new Set(), 1]]), 'Python takes no set as a key of a dict'],
    ['a bytearray as a key', new Map([[new PyByteArray(1), 1]]), 'Python takes no bytearray as a key of a dict'],
    [
      'a list in a tuple as a key',
      new Map([[PyTuple.of<unknown>(1, [2]), 1]]),
      'Python takes no list as a key of a dict',
    ],
  ];
  it.each(cases)('%s is named with its place', (_, v, message) => {
    expect(() => writePython(v)).toThrow(message);
  });

  it('what Python can hash is a key, and an item of a set', () => {
    const keys = [
      1,
      'a',
      null,
      true,
      1.5,
      PyTuple.of<unknown>(1, PyTuple.of('b')),
      new PyFrozenSet([1]),
      Uint8Array.of(1),
    ];
    const other = [new PyName('builtins', 'int'), tensor([1]), new Error('e')];
    expect(() => writePython([new Set([...keys, ...other]), new Map(keys.map((key) => [key, 1]))])).not.toThrow();
    let shared: unknown = PyTuple.of(1);
    for (let i = 0; i < 64; i++) shared = PyTuple.of(shared, shared);
    expect(() => writePython(new Set([shared]))).not.toThrow();
    const long = tupleOf(Array.from({ length: 300_000 }, (_, i) => i));
    expect(() => writePython(new Map([[long, 1]]))).not.toThrow();
  });

  it('a tuple that contains itself is refused', () => {
    const list: unknown[] = [];
    const tuple = PyTuple.of<unknown>(list);
    list.push(tuple);
    expect(() => writePython(tuple)).toThrow('a tuple that contains itself');
    expect(() => writePython([list])).not.toThrow();
  });

  it('a value that is nested too deeply is refused before the stack ends', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(() => writePython(deep)).toThrow(
      /^limit: containers in containers at (\[0\]){8}… \(501 over the limit of 500\)/,
    );
  });

  it('a disposed tensor is the message’s matter, not the pickle’s', () => {
    const t = tensor([1]);
    t.dispose();
    expect(writePython([t]).tensors).toEqual([t]);
  });
});

describe('what travels instead', () => {
  class Handle {}
  class Point {
    readonly x = 1;
  }
  const handle = new Handle();
  const fork = new RRefFork(1, { worker: 1, local: 2 }, { worker: 1, local: 3 }, 1, 'Tensor');
  const point = new PyName('capfns', 'Point');
  const replace = (v: object): unknown => {
    if (v instanceof Handle) return fork;
    if (v instanceof Point) return new PyInstance(point, [], { state: new Map([['x', v.x]]) });
    return typeof v === 'function' ? new PyName('capfns', v.name) : undefined;
  };
  const context = { tensors: [], names, rref: (f: unknown) => f };

  it('is asked for once, and the same object stays the same', () => {
    let asked = 0;
    const p = new Point();
    const { bytes } = writePython([handle, handle, p, p], { replace: (v) => (asked++, replace(v)) });
    expect(asked).toBe(2);
    const [a, b, c, d] = readPython(bytes, context) as unknown[];
    expect(a).toEqual(fork);
    expect(b).toBe(a);
    expect(c).toMatchObject({ made: 'new', state: new Map([['x', 1]]) });
    expect(d).toBe(c);
  });

  it('leaves a list that is also given as arguments a list', () => {
    const list = [1];
    const instance = new PyInstance(point, list, { state: new Map([['x', list]]) });
    const again = readPython(writePython(instance).bytes, context) as PyInstance;
    expect(again.args).toEqual(PyTuple.of(1));
    expect((again.state as Map<string, unknown>).get('x')).toEqual([1]);
    expect((again.state as Map<string, unknown[]>).get('x')?.constructor).toBe(Array);
  });

  it('of a function is its name', () => {
    const [name] = readPython(writePython([function add() {}], { replace }).bytes, context) as [PyName];
    expect(name.path).toBe('capfns.add');
  });

  it('of a parameter is its data, which requires no gradients', () => {
    const parameter = new Parameter(tensor([1, 2]));
    const { tensors } = writePython([parameter, parameter]);
    expect(tensors).toEqual([new ParameterData(parameter)]);
  });

  it('of a worker is its record', () => {
    const [info, zone] = readPython(
      writePython([new WorkerInfo('w3', 3), new PyTimeZone(new PyTimeDelta(0, 3_600, 0))]).bytes,
      context,
    ) as unknown[];
    expect(info).toEqual(new WorkerInfo('w3', 3));
    expect(info).toBeInstanceOf(WorkerInfo);
    expect(zone).toEqual(new PyTimeZone(new PyTimeDelta(0, 3_600, 0)));
  });
});

describe('frames', () => {
  it.each([
    [null, false],
    [1, false],
    [300, true],
    ['x'.repeat(65_000), true],
    ['x'.repeat(70_000), false],
  ])('are written where Python writes one: case %#', (v, framed) => {
    const { bytes } = writePython(v);
    expect([...bytes.subarray(0, 2)]).toEqual([0x80, 4]);
    expect(bytes[2] === 0x95).toBe(framed);
    if (framed)
      expect(Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(3, true))).toBe(bytes.length - 11);
  });
});
