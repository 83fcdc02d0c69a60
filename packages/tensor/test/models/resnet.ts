/** @file A residual network (He et al. 2016) with batch normalisation. */
import { crossEntropy, nn, optim, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

class Residual extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly bn1: nn.BatchNorm2d;
  readonly conv2: nn.Conv2d;
  readonly bn2: nn.BatchNorm2d;
  readonly downsample: nn.Sequential<[nn.Conv2d, nn.BatchNorm2d]> | null = null;

  constructor(inner: number, outer: number, stride: number) {
    super();
    this.conv1 = new nn.Conv2d(inner, outer, 3, { stride, padding: 1, bias: false });
    this.bn1 = new nn.BatchNorm2d(outer);
    this.conv2 = new nn.Conv2d(outer, outer, 3, { padding: 1, bias: false });
    this.bn2 = new nn.BatchNorm2d(outer);
    if (stride !== 1 || inner !== outer)
      this.downsample = new nn.Sequential(
        new nn.Conv2d(inner, outer, 1, { stride, bias: false }),
        new nn.BatchNorm2d(outer),
      );
  }

  forward(x: Tensor): Tensor {
    const y = this.bn1.forward(this.conv1.forward(x)).relu();
    const z = this.bn2.forward(this.conv2.forward(y));
    return z.add(this.downsample === null ? x : this.downsample.forward(x)).relu();
  }
}

class ResNet extends nn.Module {
  readonly conv1 = new nn.Conv2d(3, 8, 3, { padding: 1, bias: false });
  readonly bn1 = new nn.BatchNorm2d(8);
  readonly maxpool = new nn.MaxPool2d(3, { stride: 2, padding: 1 });
  readonly layer1 = new nn.Sequential(new Residual(8, 8, 1), new Residual(8, 8, 1));
  readonly layer2 = new nn.Sequential(new Residual(8, 16, 2), new Residual(16, 16, 1));
  readonly avgpool = new nn.AdaptiveAvgPool2d(1);
  readonly fc = new nn.Linear(16, 5);

  forward(x: Tensor): Tensor {
    const y = this.maxpool.forward(this.bn1.forward(this.conv1.forward(x)).relu());
    return this.fc.forward(this.avgpool.forward(this.layer2.forward(this.layer1.forward(y))).flatten(1));
  }
}

export const resnet: MakeExample = (data) => {
  const model = new ResNet();
  const [images, labels] = [data('images'), data('labels')];
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.001, momentum: 0.9, weightDecay: 1e-4, nesterov: true });
  return {
    model,
    step(i) {
      optimizer.zeroGrad();
      const logits = model.forward(images.select(0, i % 2));
      const loss = crossEntropy(logits, labels.select(0, i % 2), { labelSmoothing: 0.1 });
      loss.backward();
      optimizer.step();
      return loss;
    },
  };
};
