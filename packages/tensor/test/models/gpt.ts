/** @file A language model of causal attention (Radford et al. 2018), with tied embeddings, weight decay for matrices alone and a cosine schedule. */
import { arange, crossEntropy, nn, optim, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

class Block extends nn.Module {
  readonly ln1: nn.LayerNorm;
  readonly attn: nn.MultiheadAttention;
  readonly ln2: nn.LayerNorm;
  readonly mlp: nn.Sequential<[nn.Linear, nn.GELU, nn.Linear]>;

  constructor(width: number, heads: number) {
    super();
    this.ln1 = new nn.LayerNorm(width);
    this.attn = new nn.MultiheadAttention(width, heads, { batchFirst: true });
    this.ln2 = new nn.LayerNorm(width);
    this.mlp = new nn.Sequential(new nn.Linear(width, 4 * width), new nn.GELU(), new nn.Linear(4 * width, width));
  }

  forward(x: Tensor, attnMask: Tensor): Tensor {
    const y = this.ln1.forward(x);
    const [attended] = this.attn.forward(y, y, y, { attnMask, needWeights: false });
    const z = x.add(attended);
    return z.add(this.mlp.forward(this.ln2.forward(z)));
  }
}

class GPT extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly blocks: Block[];
  readonly norm: nn.LayerNorm;

  constructor(vocabulary = 32, context = 16, width = 32, heads = 4, layers = 2) {
    super();
    this.tokens = new nn.Embedding(vocabulary, width);
    this.positions = new nn.Embedding(context, width);
    this.blocks = Array.from({ length: layers }, () => new Block(width, heads));
    this.norm = new nn.LayerNorm(width);
  }

  forward(ids: Tensor): Tensor {
    const n = ids.shape[1] as number;
    const mask = nn.Transformer.generateSquareSubsequentMask(n);
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(0, n, 1, { dtype: 'int64' })));
    for (const block of this.blocks) x = block.forward(x, mask);
    // The head's weight is the table of the tokens.
    return this.norm.forward(x).matmul(this.tokens.weight.transpose(0, 1));
  }
}

export const gpt: MakeExample = (data) => {
  const model = new GPT();
  const ids = data('ids');
  const parameters = model.parameters();
  const optimizer = new optim.AdamW(
    [
      { params: parameters.filter((p) => p.rank > 1), weightDecay: 0.1 },
      { params: parameters.filter((p) => p.rank <= 1), weightDecay: 0 },
    ],
    { lr: 1e-3, eps: 1e-4 },
  );
  const schedule = new optim.lrScheduler.CosineAnnealingLR(optimizer, 30);
  return {
    model,
    step(i) {
      const batch = ids.select(0, i % 4);
      optimizer.zeroGrad();
      const logits = model.forward(batch.index([':', ':-1']));
      const loss = crossEntropy(logits.flatten(0, 1), batch.index([':', '1:']).flatten());
      loss.backward();
      nn.utils.clipGradNorm_(parameters, 1);
      optimizer.step();
      schedule.step();
      return loss;
    },
  };
};
