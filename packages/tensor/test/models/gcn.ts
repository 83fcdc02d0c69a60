/** @file A graph convolution (Kipf & Welling 2017) that labels nodes of which half are known. */
import { arange, concat, crossEntropy, nn, ones, optim, Parameter, zeros, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

interface Graph {
  /** int64: where each edge begins and ends. */
  readonly from: Tensor;
  readonly to: Tensor;
  /** How much each edge counts. */
  readonly weights: Tensor;
}

class GraphConvolution extends nn.Module {
  readonly weight: Parameter;
  readonly bias: Parameter;

  constructor(inner: number, outer: number) {
    super();
    this.weight = nn.init.xavierUniform_(new Parameter(zeros([inner, outer])));
    this.bias = new Parameter(zeros([outer]));
  }

  forward(x: Tensor, { from, to, weights }: Graph): Tensor {
    const messages = x.matmul(this.weight).index([from]).mul(weights.unsqueeze(-1));
    const [nodes, width] = [x.shape[0] as number, messages.shape[1] as number];
    return zeros([nodes, width]).indexAdd(0, to, messages).add(this.bias);
  }
}

class GCN extends nn.Module {
  readonly conv1 = new GraphConvolution(8, 16);
  readonly conv2 = new GraphConvolution(16, 4);

  forward(x: Tensor, graph: Graph): Tensor {
    return this.conv2.forward(this.conv1.forward(x, graph).relu(), graph);
  }
}

/** Both directions of each link, and each node to itself; normalised by the degrees. */
function graphOf(links: Tensor, nodes: number): Graph {
  const loops = arange(0, nodes, 1, { dtype: 'int64' }).repeat([2, 1]);
  const [from, to] = concat([links, links.flip([0]), loops], 1).unbind(0) as [Tensor, Tensor];
  const degrees = zeros([nodes]).indexAdd(0, to, ones([to.size]));
  return {
    from,
    to,
    weights: degrees
      .index([from])
      .mul(degrees.index([to]))
      .rsqrt(),
  };
}

export const gcn: MakeExample = (data) => {
  const model = new GCN();
  const [x, labels, known] = [data('features'), data('labels'), data('known')];
  const graph = graphOf(data('links'), x.shape[0] as number);
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01, weightDecay: 5e-4, eps: 1e-4 });
  return {
    model,
    step() {
      optimizer.zeroGrad();
      const loss = crossEntropy(model.forward(x, graph).index([known]), labels.index([known]));
      loss.backward();
      optimizer.step();
      return loss;
    },
  };
};
