/** @file Attention where masks leave nothing to attend to, and what is refused as a mask. */
import { describe, expect, it } from 'vitest';
import { nn, ones, randn, scaledDotProductAttention, tensor, zeros, type Tensor } from '../index.ts';

const finite = (t: Tensor): boolean => t.isFinite().all().item() === 1;

describe('MultiheadAttention', () => {
  it('attends to nothing where all keys are masked and nobody asks for weights, as PyTorch does', () => {
    const layer = new nn.MultiheadAttention(4, 2);
    layer.out_proj.bias?.detach().fill_(0.5);
    const x = randn([3, 2, 4], { requiresGrad: true });
    const keyPaddingMask = tensor([
      [true, true, true],
      [false, true, true],
    ]);
    const [out, none] = layer.forward(x, x, x, { keyPaddingMask, needWeights: false });
    out.sum().backward();
    expect(none).toBeNull();
    expect(out.select(1, 0).toArray()).toEqual(ones([3, 4]).mul(0.5).toArray());
    expect(finite(out)).toBe(true);
    expect([x, ...layer.parameters()].every((t) => finite(t.grad as Tensor))).toBe(true);
    const [shown, weights] = layer.forward(x, x, x, { keyPaddingMask });
    expect([shown, weights as Tensor].map((t) => t.isNaN().any().item())).toEqual([1, 1]);
    expect(shown.select(1, 1).toArray()).toEqual(out.select(1, 1).toArray());
  });

  it('begins with a bias of keys and values that Xavier drew, as PyTorch does', () => {
    const { bias_k, bias_v } = new nn.MultiheadAttention(256, 2, { addBiasKv: true });
    for (const bias of [bias_k, bias_v]) expect(bias?.std().item()).toBeCloseTo(1 / 16, 1);
  });

  it('refuses masks of integers, which say neither truth nor what to add', () => {
    const layer = new nn.MultiheadAttention(4, 2);
    const x = ones([2, 1, 4]);
    const bytes = ones([1, 2], { dtype: 'uint8' });
    const wide = zeros([2, 2], { dtype: 'int64' });
    expect(() => layer.forward(x, x, x, { keyPaddingMask: bytes })).toThrow(
      "MultiheadAttention: keyPaddingMask: only bool and floating types of masks are supported, but got uint8; convert truths with to('bool')",
    );
    expect(() => layer.forward(x, x, x, { attnMask: wide })).toThrow(/attnMask: only bool and floating .* got int64/);
    expect(() => scaledDotProductAttention(x, x, x, { mask: wide })).toThrow(/only bool and floating .* got int64/);
  });

  it('refuses a mixture of tensors with and without a batch', () => {
    const layer = new nn.MultiheadAttention(4, 2);
    const [one, many] = [ones([2, 4]), ones([2, 1, 4])];
    expect(() => layer.forward(one, many, many)).toThrow(
      'For unbatched (2-D) query, expected key and value to be 2-D but found 3-D and 3-D tensors respectively',
    );
    expect(() => layer.forward(many, many, one)).toThrow(/For batched \(3-D\) query, .* found 3-D and 2-D/);
  });
});

describe('transformers', () => {
  it('train on a sequence that is nothing but padding', () => {
    const layer = new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 8, dropout: 0, batchFirst: true });
    const srcKeyPaddingMask = tensor([
      [true, true],
      [false, true],
    ]);
    const out = layer.forward(randn([2, 2, 4]), { srcKeyPaddingMask });
    out.square().mean().backward();
    expect([out, ...layer.parameters().map((p) => p.grad as Tensor)].every(finite)).toBe(true);
  });

  it('are not told that a mask is causal that is not there', () => {
    const layer = new nn.TransformerEncoderLayer(4, 2, { dropout: 0 }).eval();
    const x = randn([3, 1, 4]);
    expect(() => layer.forward(x, { isCausal: true })).toThrow(
      'TransformerEncoderLayer: isCausal says that srcMask is causal, but there is none: nn.Transformer.generateSquareSubsequentMask(n) makes it',
    );
    const srcMask = nn.Transformer.generateSquareSubsequentMask(3);
    const out = layer.forward(x, { srcMask, isCausal: true });
    const first = layer.forward(x.narrow(0, 0, 1));
    expect(out.narrow(0, 0, 1).sub(first).abs().amax().item()).toBeLessThan(1e-6);
  });
});
