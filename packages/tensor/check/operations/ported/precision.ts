/** @file Operations under autocast: what computes in bfloat16, what in float32, and what in what it gets. */
import type { Operation } from '../../draw/operation.ts';
import { row } from './rows.ts';

const FLOATS = ['float32', 'float32', 'float32', 'bfloat16', 'float16', 'float64'] as const;

function under(
  name: string,
  ts: string,
  py: string,
  shapes: (n: () => number) => readonly (readonly number[])[],
): Operation {
  return row(
    `autocast ${name}`,
    `bw.autocast(() => ${ts})`,
    `torch.autocast('cpu', dtype=torch.bfloat16)(lambda: ${py})()`,
    'sums',
    (draw) => shapes(() => draw.random.int(1, 4)).map((shape) => draw.leaf([...shape], { style: 'plain' })),
    FLOATS,
  );
}

/** Two of one shape. */
const pair = (n: () => number): number[][] => {
  const shape = [n(), n()];
  return [shape, shape];
};
const product = (n: () => number): number[][] => {
  const [rows, inner, columns] = [n(), n(), n()];
  return [
    [rows, inner],
    [inner, columns],
  ];
};
const square = (n: () => number): number[][] => {
  const size = n();
  return [
    [n(), size],
    [size, size],
  ];
};

export const precisionRows: readonly Operation[] = [
  under('matmul', '$0.matmul($1)', '$0.matmul($1)', product),
  under('mm', '$0.mm($1)', '$0.mm($1)', product),
  under('bmm', '$0.unsqueeze(0).bmm($1.unsqueeze(0))', '$0.unsqueeze(0).bmm($1.unsqueeze(0))', product),
  under('addmm', 'bw.addmm($2, $0, $1)', 'torch.addmm($2, $0, $1)', (n) => [...product(n), [1, 1]]),
  under('linear', 'bw.linear($0, $1, $2)', 'F.linear($0, $1, $2)', () => [[3, 4], [2, 4], [2]]),
  // Of dimensions of one element PyTorch makes products element by element, which are not lowered.
  under('einsum', "bw.einsum('ij,jk->ki', $0, $1)", "torch.einsum('ij,jk->ki', $0, $1)", (n) => product(() => n() + 1)),
  under('conv1d', 'bw.conv1d($0, $1, { bias: $2 })', 'F.conv1d($0, $1, $2)', (n) => [[n(), 2, 5], [3, 2, 2], [3]]),
  under('conv2d', 'bw.conv2d($0, $1)', 'F.conv2d($0, $1)', (n) => [
    [n(), 2, 4, 5],
    [3, 2, 2, 3],
  ]),
  under('convTranspose2d', 'bw.convTranspose2d($0, $1)', 'F.conv_transpose2d($0, $1)', (n) => [
    [n(), 2, 3, 2],
    [2, 3, 2, 2],
  ]),
  under(
    'scaledDotProductAttention',
    'bw.scaledDotProductAttention($0, $1, $1)',
    'F.scaled_dot_product_attention($0, $1, $1)',
    (n) => [
      [2, n(), 4],
      [2, n(), 4],
    ],
  ),
  under('prelu', 'bw.prelu($0, $1)', 'F.prelu($0, $1)', (n) => [[n(), n()], [1]]),
  under('weights used twice', '$0.matmul($1).matmul($1)', '$0.matmul($1).matmul($1)', square),
  under('sums of products', '$0.matmul($1).add($0)', '$0.matmul($1).add($0)', square),
  under('mseLoss', 'bw.mseLoss($0.matmul($1), $0)', 'F.mse_loss($0.matmul($1), $0)', square),
  under('l1Loss', 'bw.l1Loss($0, $1)', 'F.l1_loss($0, $1)', pair),
  under('huberLoss', 'bw.huberLoss($0, $1)', 'F.huber_loss($0, $1)', pair),
  under(
    'binaryCrossEntropyWithLogits',
    'bw.binaryCrossEntropyWithLogits($0, $1.sigmoid().detach())',
    'F.binary_cross_entropy_with_logits($0, $1.sigmoid().detach())',
    pair,
  ),
  under(
    'crossEntropy',
    'bw.crossEntropy($0.matmul($1), bw.zeros([$0.shape[0]], { dtype: "int64" }))',
    'F.cross_entropy($0.matmul($1), torch.zeros([$0.shape[0]], dtype=torch.int64))',
    product,
  ),
  under('klDiv', 'bw.klDiv($0, $1.sigmoid())', 'F.kl_div($0, $1.sigmoid())', pair),
  under('prod', '$0.prod()', '$0.prod()', pair),
  under('cdist', 'bw.cdist($0, $1)', 'torch.cdist($0, $1)', (n) => [
    [n(), 3],
    [n(), 3],
  ]),
  under('softmax', '$0.matmul($1).softmax(-1)', '$0.matmul($1).softmax(-1)', product),
  under('layerNorm', 'bw.layerNorm($0, [4])', 'F.layer_norm($0, [4])', (n) => [[n(), 4]]),
  under('dot', 'bw.dot($0, $1)', 'torch.dot($0, $1)', () => [[4], [4]]),
  under('outer', 'bw.outer($0, $1)', 'torch.outer($0, $1)', (n) => [[n()], [n()]]),
  under('norm', '$0.norm()', '$0.norm()', pair),
  under('cosineSimilarity', 'bw.cosineSimilarity($0, $1)', 'F.cosine_similarity($0, $1)', pair),
  under('pad reflect', "bw.pad($0, [1, 1], 'reflect')", "F.pad($0, [1, 1], 'reflect')", (n) => [[n(), 2, 3]]),
  under(
    'switched off',
    'bw.autocast(() => $0.matmul($1), { enabled: false })',
    "torch.autocast('cpu', enabled=False)(lambda: $0.matmul($1))()",
    product,
  ),
];
