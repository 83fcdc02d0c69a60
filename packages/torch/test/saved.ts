/** @file Values that are saved for torch.load, with what Python has to see in them. */
import { Parameter, complex, nn, sparseCooTensor, tensor } from '@backwire/tensor';
import { saveStateDict, saveTorchFile } from '../src/file/save.ts';
import { PyByteArray, PyOrderedDict, PyTuple, TorchSize } from '../src/values/containers.ts';
import { elementNamed } from '../src/values/dtypes.ts';
import { PyComplex, PyFloat } from '../src/values/numbers.ts';
import { tensorOverBytes } from '../src/values/numpy.ts';
import { TorchDType, TorchDevice, TorchLayout } from '../src/values/torch-types.ts';

const t = tensor([1, 2, 3, 4]);
const opaque = tensorOverBytes(elementNamed('float8_e5m2')!, Uint8Array.of(60, 64), [2], [1]);
const linear = new nn.Linear(1, 2);
linear.loadStateDict(
  new Map([
    ['weight', tensor([[1], [2]])],
    ['bias', tensor([3, 4])],
  ]),
);
const list = [1, 2];
const float = (hex: string): string => `float(${hex})`;

/** By name: a value, and the text of what torch loads. */
export const savedCases: Readonly<Record<string, readonly [value: unknown, text: string]>> = {
  scalars: [
    [null, true, 0, -1, 2 ** 40, 10n ** 25n, 0.5, new PyFloat(2), -0, 'é😀', '', 'x'.repeat(300)],
    `[None, True, 0, -1, 1099511627776, ${10n ** 25n}, ${float('3fe0000000000000')}, ${float('4000000000000000')}, ${float('8000000000000000')}, "\\u00e9\\ud83d\\ude00", "", "${'x'.repeat(300)}"]`,
  ],
  containers: [
    {
      a: [],
      b: [1],
      c: PyTuple.of<unknown>(1, PyTuple.of(2)),
      d: new Map([[1, { e: null }]]),
      s: new Set([1, 2]),
      o: new PyOrderedDict([['k', 1]]),
    },
    '{"a": [], "b": [1], "c": (1, (2)), "d": {1: {"e": None}}, "s": set{1, 2}, "o": OrderedDict{"k": 1}}',
  ],
  'the same twice': [[list, list], '[[1, 2], [1, 2]]'],
  'long containers': [
    { list: Array.from({ length: 2_001 }, () => 0), names: Array.from({ length: 300 }, (_, i) => `n${i}`) },
    `{"list": [${Array.from({ length: 2_001 }, () => 0).join(', ')}], "names": [${Array.from({ length: 300 }, (_, i) => `"n${i}"`).join(', ')}]}`,
  ],
  bytes: [
    [new Uint8Array(0), Uint8Array.of(0, 128, 255), PyByteArray.of(1, 200)],
    '[bytes(), bytes(0080ff), bytearray(01c8)]',
  ],
  'torch values': [
    [
      TorchDType.named('float16'),
      new TorchDevice('cpu'),
      new TorchDevice('cuda', 1),
      TorchSize.of(2, 3),
      new TorchLayout('torch.strided'),
      new PyComplex(1, 2),
    ],
    `[torch.float16, device(cpu), device(cuda:1), Size(2, 3), layout(torch.strided), complex(${float('3ff0000000000000')}, ${float('4000000000000000')})]`,
  ],
  tensors: [
    [
      t,
      t.slice(0, 1, 3),
      t.reshape([2, 2]).transpose(0, 1),
      tensor([]),
      tensor(5),
      tensor([1]).expand([2]),
      complex(tensor([1]), tensor([2])),
    ],
    '[Tensor(float32, [4], storage 0 of 16, offset 0, strides [1], 0000803f000000400000404000008040), Tensor(float32, [2], storage 0 of 16, offset 1, strides [1], 0000004000004040), Tensor(float32, [2, 2], storage 0 of 16, offset 0, strides [1, 2], 0000803f000040400000004000008040), Tensor(float32, [0], no storage, strides [1], ), Tensor(float32, [], storage 1 of 4, offset 0, strides [], 0000a040), Tensor(float32, [2], storage 2 of 4, offset 0, strides [0], 0000803f0000803f), Tensor(complex64, [1], storage 3 of 8, offset 0, strides [1], 0000803f00000040)]',
  ],
  'other tensors': [
    [
      tensor([1], { requiresGrad: true }),
      new Parameter(tensor([2])),
      opaque,
      sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]),
    ],
    '[Tensor(float32, [1], grad, storage 0 of 4, offset 0, strides [1], 0000803f), Parameter(float32, [1], grad, storage 1 of 4, offset 0, strides [1], 00000040), Tensor(float8_e5m2, [2], storage 2 of 2, offset 0, strides [1], 3c40), Sparse(float32, [4], Tensor(int64, [1, 2], storage 3 of 16, offset 0, strides [2, 1], 00000000000000000200000000000000), Tensor(float32, [2], storage 4 of 8, offset 0, strides [1], 0000803f00000040))]',
  ],
};

/** The state of a module, as `load_state_dict` takes it. */
export const savedState = {
  tensors: linear.stateDict(),
  text: 'OrderedDict{"weight": Tensor(float32, [2, 1], storage 0 of 8, offset 0, strides [1, 1], 0000803f00000040), "bias": Tensor(float32, [2], storage 1 of 8, offset 0, strides [1], 0000404000008040)}',
};

/** By name: the file, in base64. */
export function savedFiles(): Record<string, string> {
  const files = Object.entries(savedCases).map(([name, [value]]) => [name, saveTorchFile(value)] as const);
  const all = [...files, ['state', saveStateDict(savedState.tensors)] as const];
  return Object.fromEntries(all.map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]));
}
