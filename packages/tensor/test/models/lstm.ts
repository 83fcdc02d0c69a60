/** @file A recurrent language model that is trained part by part: the state goes on, its history is cut. */
import { crossEntropy, keep, nn, optim, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

class LanguageModel extends nn.Module {
  readonly embedding = new nn.Embedding(24, 16);
  readonly lstm = new nn.LSTM(16, 24, { numLayers: 2 });
  readonly head = new nn.Linear(24, 24);

  forward(ids: Tensor, state?: [Tensor, Tensor]): [Tensor, [Tensor, Tensor]] {
    const [out, next] = this.lstm.forward(this.embedding.forward(ids), state);
    return [this.head.forward(out), next];
  }
}

export const lstm: MakeExample = (data) => {
  const model = new LanguageModel();
  const ids = data('ids');
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.5 });
  const schedule = new optim.lrScheduler.StepLR(optimizer, 10, { gamma: 0.5 });
  let state: [Tensor, Tensor] | undefined;
  return {
    model,
    step(i) {
      const part = ids.narrow(0, 6 * i, 7);
      optimizer.zeroGrad();
      const [logits, [h, c]] = model.forward(part.narrow(0, 0, 6), state);
      state = [keep(h.detach()), keep(c.detach())];
      const loss = crossEntropy(logits.flatten(0, 1), part.narrow(0, 1, 6).flatten());
      loss.backward();
      nn.utils.clipGradNorm_(model.parameters(), 0.25);
      optimizer.step();
      schedule.step();
      return loss;
    },
  };
};
