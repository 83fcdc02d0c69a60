/** @file Values that are written for torch, with what Python has to see in them. */
import { WorkerInfo } from '@backwire/rpc';
import { Parameter, sparseCooTensor, tensor } from '@backwire/tensor';
import { builtinExceptions } from '../src/pickle/exceptions.ts';
import {
  PyByteArray,
  PyDefaultDict,
  PyDeque,
  PyFrozenSet,
  PyOrderedDict,
  PyTuple,
  TorchSize,
  scriptDict,
  scriptList,
  tupleOf,
} from '../src/values/containers.ts';
import { elementNamed } from '../src/values/dtypes.ts';
import { PyName } from '../src/values/name.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../src/values/numbers.ts';
import { NumpyArray, NumpyScalar, tensorOverBytes } from '../src/values/numpy.ts';
import {
  PyAttribute,
  PyException,
  PyInstance,
  PythonUdf,
  RRefFork,
  RemoteException,
  SerializedRemoteModule,
} from '../src/values/objects.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from '../src/values/time.ts';
import { TorchDType, TorchDevice, TorchLayout } from '../src/values/torch-types.ts';
import { scale, scaleText } from './written-module.ts';

/** A value, and the text of what torch reads. */
export type WrittenCase = readonly [name: string, value: unknown, text: string];

const fork = new RRefFork(1, { worker: 0, local: 5 }, { worker: 0, local: 6 }, 0, 'PyObject');
const float = (hex: string): string => `float(${hex})`;
const point = new PyName('capfns', 'Point');
const add = new PyName('capfns', 'add');
const orderedDict = Object.assign(new PyOrderedDict([['b', 1]]), { attributes: new Map([['version', 2]]) });
const defaultDict = Object.assign(new PyDefaultDict([['k', [1]]]), { factory: new PyName('builtins', 'list') });
const deque = Object.assign(PyDeque.from([1, 2]), { maxLength: 5 });
const list: unknown[] = [1];
const cycle: unknown[] = [];
cycle.push(cycle);
const loop = new Map<string, unknown>();
loop.set('self', loop);
const zone = new PyTimeZone(new PyTimeDelta(0, 7200, 0));
const parts = { year: 2024, month: 2, day: 29, hour: 13, minute: 14, second: 15, microsecond: 161_718, fold: 0 };
const words = (count: number): string => Array.from({ length: count }, (_, i) => i).join(', ');

/** Values of Python's side. */
export const pythonCases: readonly WrittenCase[] = [
  ['nothing', [null, undefined, true, false], '[None, None, True, False]'],
  [
    'ints',
    [0, 255, 256, 65_535, 65_536, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 53 - 1],
    '[0, 255, 256, 65535, 65536, -1, 2147483647, 2147483648, -2147483648, 9007199254740991]',
  ],
  [
    'long ints',
    [5n, 2n ** 53n, -(2n ** 63n), 2n ** 63n, -(2n ** 64n), 10n ** 30n, -(10n ** 60n)],
    `[5, ${2n ** 53n}, ${-(2n ** 63n)}, ${2n ** 63n}, ${-(2n ** 64n)}, ${10n ** 30n}, ${-(10n ** 60n)}]`,
  ],
  [
    'floats',
    [0.5, -0, NaN, Infinity, -Infinity, 1e300, 2 ** 53, new PyFloat(1)],
    `[${['3fe0000000000000', '8000000000000000', '7ff8000000000000', '7ff0000000000000', 'fff0000000000000', '7e37e43c8800759c', '4340000000000000', '3ff0000000000000'].map(float).join(', ')}]`,
  ],
  [
    'texts',
    ['', 'ascii', 'é😀', '\ud800', 'a\udc00b', 'x'.repeat(255), 'é'.repeat(128), '\u0000\n"\\'],
    `["", "ascii", "\\u00e9\\ud83d\\ude00", "\\ud800", "a\\udc00b", "${'x'.repeat(255)}", "${'\\u00e9'.repeat(128)}", "\\u0000\\n\\"\\\\"]`,
  ],
  ['a long text', 'y'.repeat(70_000), `"${'y'.repeat(70_000)}"`],
  [
    'bytes',
    [
      new Uint8Array(0),
      Uint8Array.of(1, 255),
      new Uint8Array(256).fill(7),
      Buffer.from('hi'),
      PyByteArray.of(1, 2),
      new PyByteArray(0),
    ],
    `[bytes(), bytes(01ff), bytes(${'07'.repeat(256)}), bytes(6869), bytearray(0102), bytearray()]`,
  ],
  ['long bytes', new Uint8Array(70_000).fill(1), `bytes(${'01'.repeat(70_000)})`],
  ['lists', [[], [1], [1, [2, [3]]]], '[[], [1], [1, [2, [3]]]]'],
  ['a long list', Array.from({ length: 2_500 }, (_, i) => i), `[${words(2_500)}]`],
  ['a list of 1001', Array.from({ length: 1_001 }, (_, i) => i), `[${words(1_001)}]`],
  ['a list of 1000', Array.from({ length: 1_000 }, (_, i) => i), `[${words(1_000)}]`],
  [
    'tuples',
    [new PyTuple(), PyTuple.of(1), PyTuple.of(1, 2), PyTuple.of(1, 2, 3), PyTuple.of(1, 2, 3, 4)],
    '[(), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4)]',
  ],
  [
    'dicts',
    [
      {},
      { a: 1 },
      { a: 1, b: [2] },
      new Map<unknown, unknown>([
        [1, 'x'],
        [PyTuple.of(1, 2), null],
      ]),
      JSON.parse('{"__proto__":1,"constructor":2}'),
    ],
    '[{}, {"a": 1}, {"a": 1, "b": [2]}, {1: "x", (1, 2): None}, {"__proto__": 1, "constructor": 2}]',
  ],
  [
    'a long dict',
    new Map(Array.from({ length: 2_001 }, (_, i) => [i, i])),
    `{${Array.from({ length: 2_001 }, (_, i) => `${i}: ${i}`).join(', ')}}`,
  ],
  [
    'sets',
    [new Set(), new Set([1]), new Set(['a', 'b']), new PyFrozenSet([3, 4]), new PyFrozenSet()],
    '[set{}, set{1}, set{"a", "b"}, frozenset{3, 4}, frozenset{}]',
  ],
  [
    'a long set',
    new Set(Array.from({ length: 1_500 }, (_, i) => i)),
    `set{${Array.from({ length: 1_500 }, (_, i) => String(i))
      .sort()
      .join(', ')}}`,
  ],
  ['the same twice', [list, list, cycle, loop], '[[1], [1], [<cycle>], {"self": <cycle>}]'],
  [
    'collections',
    [orderedDict, defaultDict, deque, new PyDeque()],
    '[OrderedDict{"b": 1}, defaultdict(<builtins.list>){"k": [1]}, deque(5)[1, 2], deque(None)[]]',
  ],
  [
    'numbers of Python',
    [new PyComplex(1, -2.5), new PyRange(1, 10, 3), new PySlice(null, 5), new PySlice(1, 2, 3)],
    `[complex(${float('3ff0000000000000')}, ${float('c004000000000000')}), range(1, 10, 3), slice(None, 5, None), slice(1, 2, 3)]`,
  ],
  [
    'constants',
    [new PyName('builtins', 'Ellipsis'), new PyName('builtins', 'NotImplemented'), add, point],
    '[<builtins.Ellipsis>, <builtins.NotImplemented>, <capfns.add>, <capfns.Point>]',
  ],
  [
    'times',
    [
      new PyDateTime(parts),
      new PyDateTime(parts, zone),
      PyDateTime.from(new Date(1_234)),
      new PyTimeDelta(-1, 5, 6),
      zone,
    ],
    '[datetime(2024-02-29T13:14:15.161718), datetime(2024-02-29T13:14:15.161718+02:00), datetime(1970-01-01T00:00:01.234000+00:00), timedelta(-1, 5, 6), timezone(timedelta(0, 7200, 0))]',
  ],
  [
    'torch values',
    [
      TorchDType.named('bfloat16'),
      TorchDType.named('qint8'),
      new TorchDevice('cpu'),
      new TorchDevice('cuda', 1),
      TorchSize.of(2, 3),
      new TorchLayout('torch.sparse_coo'),
      new WorkerInfo('w7', 7),
    ],
    '[torch.bfloat16, torch.qint8, device(cpu), device(cuda:1), Size(2, 3), layout(torch.sparse_coo), WorkerInfo("w7", 7)]',
  ],
  [
    'exceptions',
    [
      new PyException(builtinExceptions.get('KeyError')!, ['k', 1]),
      new TypeError('t'),
      new RangeError('r'),
      new Error('e'),
      new EvalError('v'),
      Object.assign(new Error('named'), { name: 'KeyError' }),
    ],
    '[KeyError("k", 1), TypeError("t"), ValueError("r"), RuntimeError("e"), RuntimeError("EvalError: v"), KeyError("named")]',
  ],
  [
    'objects',
    [
      new PyInstance(point, [], {
        state: new Map([
          ['x', 3],
          ['y', 4],
        ]),
      }),
      new PyInstance(new PyName('capfns', 'Pair'), [1, 'b']),
      new PyInstance(new PyName('torch.distributed.rpc.internal', 'RPCExecMode'), ['sync'], { made: 'call' }),
    ],
    '[capfns.Point{"x": 3, "y": 4}, capfns.Pair(1, "b"), torch.distributed.rpc.internal.RPCExecMode("sync")]',
  ],
  [
    'methods',
    [
      new PyAttribute(point, 'named'),
      new PyAttribute(
        new PyInstance(point, [], {
          state: new Map([
            ['x', 1],
            ['y', 2],
          ]),
        }),
        'norm',
      ),
    ],
    '[<named of <capfns.Point>>, <norm of capfns.Point{"x": 1, "y": 2}>]',
  ],
  ['a call', new PythonUdf(add, PyTuple.of(1, 2), new Map([['k', 3]])), 'call <capfns.add> (1, 2) {"k": 3}'],
  [
    'a failure',
    new RemoteException('On WorkerInfo(id=1, name=w1):\nboom', builtinExceptions.get('ValueError')!),
    'raise <builtins.ValueError> "On WorkerInfo(id=1, name=w1):\\nboom"',
  ],
  [
    'references',
    [fork, new SerializedRemoteModule('w1', 'cuda:0', fork), new SerializedRemoteModule(1, 'cpu', fork)],
    '[RRef(1, 0, 5, 0, 6, 0, "PyObject"), RemoteModule("w1", "cuda:0", RRef(1, 0, 5, 0, 6, 0, "PyObject")), RemoteModule(1, "cpu", RRef(1, 0, 5, 0, 6, 0, "PyObject"))]',
  ],
  ['modules', [scale, scale], `[${scaleText}, ${scaleText}]`],
  [
    'numpy',
    [
      new NumpyArray(
        tensor([
          [1, 2],
          [3, 4],
        ]),
      ),
      new NumpyArray(tensor([5n], { dtype: 'int64' })),
      new NumpyArray(tensor([true, false])),
      new NumpyScalar('float64', 0.5),
      new NumpyScalar('int64', 7n),
      new NumpyScalar('uint8', 200),
      new NumpyScalar('bool', true),
    ],
    '[ndarray(f4, [2, 2], 0000803f000000400000404000008040), ndarray(i8, [1], 0500000000000000), ndarray(b1, [2], 0100), scalar(f8, 000000000000e03f), scalar(i8, 0700000000000000), scalar(u1, c8), scalar(b1, 01)]',
  ],
  ...tensorCases(),
];

function tensorCases(): WrittenCase[] {
  const t = tensor([1, 2, 3, 4]);
  const big = tensor(Array.from({ length: 4_096 }, (_, i) => i));
  const shared = tensor([1n, 2n], { dtype: 'int64' });
  const complex128 = elementNamed('complex128')!;
  const opaque = tensorOverBytes(complex128, new Uint8Array(Float64Array.of(1, 2, 3, 4).buffer), [2], [1]);
  const dtypes = ['float64', 'float16', 'bfloat16', 'int32', 'int16', 'int8', 'uint8', 'bool'] as const;
  const one = ['000000000000f03f', '003c', '803f', '01000000', '0100', '01', '01', '01'];
  const bytes = [8, 2, 2, 4, 2, 1, 1, 1];
  return [
    ['a tensor', t, 'Tensor(float32, [4], storage 0 of 16, offset 0, strides [1], 0000803f000000400000404000008040)'],
    [
      'tensors of all types',
      dtypes.map((dtype) => tensor([1], { dtype })),
      `[${dtypes.map((dtype, i) => `Tensor(${dtype}, [1], storage ${i} of ${bytes[i]}, offset 0, strides [1], ${one[i]})`).join(', ')}]`,
    ],
    [
      'views of one storage',
      [t, t.slice(0, 1, 3), t.reshape([2, 2]).transpose(0, 1), t],
      '[Tensor(float32, [4], storage 0 of 16, offset 0, strides [1], 0000803f000000400000404000008040), Tensor(float32, [2], storage 0 of 16, offset 1, strides [1], 0000004000004040), Tensor(float32, [2, 2], storage 0 of 16, offset 0, strides [1, 2], 0000803f000040400000004000008040), Tensor(float32, [4], storage 0 of 16, offset 0, strides [1], 0000803f000000400000404000008040)]',
    ],
    [
      'a small view of a large storage',
      big.slice(0, 5, 7),
      'Tensor(float32, [2], storage 0 of 8, offset 0, strides [1], 0000a0400000c040)',
    ],
    [
      'no elements and no dimensions',
      [tensor([]), tensor([], { shape: [2, 0] }), tensor(5)],
      '[Tensor(float32, [0], no storage, strides [1], ), Tensor(float32, [2, 0], no storage, strides [1, 1], ), Tensor(float32, [], storage 0 of 4, offset 0, strides [], 0000a040)]',
    ],
    [
      'gradients and parameters',
      [tensor([1], { requiresGrad: true }), new Parameter(tensor([2])), new Parameter(tensor([3]), false)],
      '[Tensor(float32, [1], grad, storage 0 of 4, offset 0, strides [1], 0000803f), Parameter(float32, [1], grad, storage 1 of 4, offset 0, strides [1], 00000040), Parameter(float32, [1], storage 2 of 4, offset 0, strides [1], 00004040)]',
    ],
    [
      'a sparse tensor',
      sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]),
      'Sparse(float32, [4], Tensor(int64, [1, 2], storage 0 of 16, offset 0, strides [2, 1], 00000000000000000200000000000000), Tensor(float32, [2], storage 1 of 8, offset 0, strides [1], 0000803f00000040))',
    ],
    [
      'a tensor that is only handed on',
      [opaque],
      '[Tensor(complex128, [2], storage 0 of 32, offset 0, strides [1], 000000000000f03f000000000000004000000000000008400000000000001040)]',
    ],
    [
      'an expanded tensor',
      [shared, tensor([7]).expand([3])],
      '[Tensor(int64, [2], storage 0 of 16, offset 0, strides [1], 01000000000000000200000000000000), Tensor(float32, [3], storage 1 of 4, offset 0, strides [0], 0000e0400000e0400000e040)]',
    ],
  ];
}

const ints = scriptList('int', [1, 2]);

/** Values of the C++ side. */
export const scriptCases: readonly WrittenCase[] = [
  [
    'scalars',
    tupleOf([
      null,
      true,
      false,
      0,
      255,
      256,
      65_536,
      -1,
      2 ** 31,
      2 ** 53 - 1,
      2n ** 62n,
      0.5,
      new PyFloat(1),
      -0,
      1e300,
    ]),
    `(None, True, False, 0, 255, 256, 65536, -1, 2147483648, 9007199254740991, ${2n ** 62n}, ${['3fe0000000000000', '3ff0000000000000', '8000000000000000', '7e37e43c8800759c'].map(float).join(', ')})`,
  ],
  [
    'texts',
    tupleOf(['', 'a', 'é😀', 'a', 'x'.repeat(300)]),
    `("", "a", "\\u00e9\\ud83d\\ude00", "a", "${'x'.repeat(300)}")`,
  ],
  [
    'tuples',
    tupleOf([new PyTuple(), PyTuple.of(1), PyTuple.of(1, 2), PyTuple.of(1, 2, 3), PyTuple.of(1, 2, 3, 4)]),
    '((), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4))',
  ],
  [
    'lists',
    tupleOf([
      ints,
      scriptList('float', [1, new PyFloat(2)]),
      scriptList('bool', [true]),
      scriptList('str', ['a']),
      scriptList('Any', [1, 'a']),
      scriptList('int', []),
      scriptList('List[int]', [ints]),
    ]),
    `([1, 2], [${float('3ff0000000000000')}, ${float('4000000000000000')}], [True], ["a"], [1, "a"], [], [[1, 2]])`,
  ],
  [
    'dicts',
    tupleOf([
      scriptDict('str', 'int', [
        ['a', 1],
        ['b', 2],
      ]),
      scriptDict('int', 'str', []),
      scriptDict('str', 'List[int]', [['k', ints]]),
    ]),
    '({"a": 1, "b": 2}, {}, {"k": [1, 2]})',
  ],
  [
    'devices and complex numbers',
    tupleOf([new TorchDevice('cpu'), new TorchDevice('cpu'), new PyComplex(1, 2)]),
    `(device(cpu), device(cpu), complex(${float('3ff0000000000000')}, ${float('4000000000000000')}))`,
  ],
  [
    'many strings',
    tupleOf(Array.from({ length: 300 }, (_, i) => `s${i % 290}`)),
    `(${Array.from({ length: 300 }, (_, i) => `"s${i % 290}"`).join(', ')})`,
  ],
];
