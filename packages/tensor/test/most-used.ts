/** @file The functions that public model code calls most, in order, what they are here, and which test holds them against PyTorch. */

import { expect } from 'vitest';
import * as bw from '../src/index.ts';
import { manualSeed, nn, noGrad, ones, Parameter, randint, randn, randnLike, tensor } from '../src/index.ts';

/** What is called there, what here, and how recorded programs call it, or else what it has to do. */
export interface Used {
  readonly torch: string;
  readonly here: string;
  readonly proof: { readonly ts: RegExp; readonly py: RegExp } | (() => void);
}

const recorded = (torch: string, here: string, ts: RegExp, py: RegExp): Used => ({ torch, here, proof: { ts, py } });
const method = (torch: string, here = torch): Used =>
  recorded(`x.${torch}`, `x.${here}`, new RegExp(`\\.${here}\\(`), new RegExp(`\\.${torch}\\(`));
const fn = (torch: string, here: string, py = `torch.${torch}`): Used =>
  recorded(py, here, new RegExp(`\\bbw\\.${here}\\(`), new RegExp(`\\b${py.replaceAll('.', '\\.')}\\(`));
const layer = (name: string): Used =>
  recorded(`nn.${name}`, `nn.${name}`, new RegExp(`new nn\\.${name}\\(`), new RegExp(`nn\\.${name}\\(`));
const checked = (torch: string, here: string, proof: () => void): Used => ({ torch, here, proof });

const matrix = (): bw.Tensor =>
  tensor([
    [1, 2, 3],
    [4, 5, 6],
  ]);
const meanOf = (t: bw.Tensor): number => t.mean().item();

/**
 * Counted in the Python of nine public projects (pytorch/examples, nanoGPT, vit-pytorch, denoising-diffusion-pytorch, stable-baselines3,
 * fairseq, pytorch-image-models, cleanrl, pytorch_geometric): the mean of each project's share of calls, without those that ask about
 * accelerators or name types.
 */
export const MOST_USED: readonly Used[] = [
  method('to'),
  layer('Linear'),
  checked('x.size', 'x.shape', () => expect(matrix().shape).toEqual([2, 3])),
  method('item'),
  method('view'),
  layer('Sequential'),
  method('reshape'),
  fn('cat', 'concat'),
  method('mean'),
  layer('Conv2d'),
  layer('Dropout'),
  checked('nn.Parameter', 'Parameter', () => {
    const p = new Parameter(ones([2]));
    expect([p.requiresGrad, p.isLeaf, p.toArray()]).toEqual([true, true, [1, 1]]);
  }),
  checked('torch.no_grad', 'noGrad', () => {
    const x = ones([2], { requiresGrad: true });
    expect([noGrad(() => x.mul(2)).requiresGrad, x.mul(2).requiresGrad]).toEqual([false, true]);
  }),
  method('sum'),
  method('transpose'),
  fn('zeros', 'zeros'),
  layer('Identity'),
  method('flatten'),
  checked('torch.randn', 'randn', () => {
    manualSeed(1);
    const t = randn([50, 200]);
    expect([t.shape, t.dtype]).toEqual([[50, 200], 'float32']);
    expect(meanOf(t)).toBeCloseTo(0, 1);
    expect(t.std().item()).toBeCloseTo(1, 1);
  }),
  checked('x.backward', 'x.backward', () => {
    const x = tensor([1, -2], { requiresGrad: true });
    x.square().sum().backward();
    expect(x.grad?.toArray()).toEqual([2, -4]);
  }),
  layer('LayerNorm'),
  method('float'),
  fn('tensor', 'tensor'),
  checked('x.cpu', "x.to('cpu')", () => {
    bw.openHostDevice('host:60');
    const there = matrix().to('host:60');
    expect([there.device, there.to('cpu').device]).toEqual(['host:60', 'cpu']);
    expect(there.to('cpu').toArray()).toEqual(matrix().toArray());
  }),
  checked('x.numpy', 'x.data', () => expect(matrix().dataSync()).toEqual(new Float32Array([1, 2, 3, 4, 5, 6]))),
  checked('nn.ModuleList', 'nn.ModuleList', () => {
    const list = new nn.ModuleList([new nn.Linear(2, 3), new nn.Linear(3, 1, { bias: false })]);
    expect(list.namedParameters().map(([name, p]) => [name, p.shape])).toEqual([
      ['0.weight', [3, 2]],
      ['0.bias', [3]],
      ['1.weight', [1, 3]],
    ]);
  }),
  method('split'),
  fn('arange', 'arange'),
  fn('stack', 'stack'),
  method('unsqueeze'),
  layer('ReLU'),
  checked('torch.from_numpy', 'tensor, fromBytes', () => {
    const t = tensor(new Int32Array([7, 8]));
    expect([t.dtype, t.toArray()]).toEqual(['int32', [7, 8]]);
    expect(bw.fromBytes(new Uint8Array(new Float32Array([1.5, 2]).buffer), [2], 'float32').toArray()).toEqual([1.5, 2]);
  }),
  method('clone'),
  checked('x.numel', 'x.size', () => expect(matrix().size).toBe(6)),
  method('copy_'),
  method('contiguous'),
  method('long'),
  checked('torch.save', 'saveSafetensors', () => {
    const written = bw.saveSafetensors(new Map([['w', matrix()]]));
    expect(bw.loadSafetensors(written).tensors.get('w')?.toArray()).toEqual(matrix().toArray());
  }),
  checked('torch.randint', 'randint', () => {
    const t = randint(3, 6, [300]);
    expect([t.dtype, t.unique().values.toArray()]).toEqual(['int64', [3n, 4n, 5n]]);
  }),
  checked('torch.manual_seed', 'manualSeed', () => {
    const draw = (): unknown => (manualSeed(7), randn([4]).toArray());
    expect(draw()).toEqual(draw());
  }),
  fn('ones', 'ones'),
  method('clamp'),
  method('exp'),
  method('permute'),
  method('chunk'),
  checked('torch.load', 'loadSafetensors', () => {
    const net = new nn.Linear(3, 2);
    const other = new nn.Linear(3, 2);
    other.loadStateDict(bw.loadSafetensors(bw.saveSafetensors(net.stateDict())).tensors);
    expect(other.weight.toArray()).toEqual(net.weight.toArray());
  }),
  method('add'),
  method('detach'),
  recorded('F.relu', 'relu', /\$0\.relu\(\)/, /relu\(/),
  method('max'),
  layer('GELU'),
  checked('x.dim', 'x.rank', () => expect(matrix().rank).toBe(2)),
  method('softmax'),
  fn('zeros_like', 'zerosLike'),
  fn('matmul', 'matmul'),
  checked('nn.init.normal_', 'nn.init.normal_', () => {
    manualSeed(1);
    const w = nn.init.normal_(bw.empty([100, 100]), 2, 0.5);
    expect(meanOf(w)).toBeCloseTo(2, 1);
    expect(w.std().item()).toBeCloseTo(0.5, 1);
  }),
  fn('sqrt', 'sqrt'),
  method('squeeze'),
  checked('x.tolist', 'x.toArray', () =>
    expect(matrix().toArray()).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]),
  ),
  checked('torch.randn_like', 'randnLike', () => {
    const t = randnLike(matrix().to('float64'));
    expect([t.shape, t.dtype]).toEqual([[2, 3], 'float64']);
  }),
];
