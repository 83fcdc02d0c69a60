/** @file A variational autoencoder (Kingma & Welling 2014). */
import { binaryCrossEntropyWithLogits, distributions, nn, optim, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

const { klDivergence, Normal } = distributions;

class VAE extends nn.Module {
  readonly encoder = new nn.Sequential(new nn.Linear(64, 32), new nn.Tanh());
  readonly mean = new nn.Linear(32, 4);
  readonly log_std = new nn.Linear(32, 4);
  readonly decoder = new nn.Sequential(new nn.Linear(4, 32), new nn.Tanh(), new nn.Linear(32, 64));

  /** The logits of the pixels, and how far the posterior is from the prior. `noise` is what `rsample` would draw. */
  forward(x: Tensor, noise: Tensor): [Tensor, Tensor] {
    const h = this.encoder.forward(x);
    const posterior = new Normal(this.mean.forward(h), this.log_std.forward(h).exp());
    const z = posterior.loc.add(posterior.scale.mul(noise));
    return [this.decoder.forward(z), klDivergence(posterior, new Normal(0, 1)).sum(-1)];
  }
}

export const vae: MakeExample = (data) => {
  const model = new VAE();
  const [images, noise] = [data('images'), data('noise')];
  const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3, eps: 1e-4 });
  return {
    model,
    step(i) {
      const x = images.select(0, i % 4);
      optimizer.zeroGrad();
      const [logits, divergence] = model.forward(x, noise.select(0, i % 4));
      const reconstruction = binaryCrossEntropyWithLogits(logits, x, { reduction: 'none' }).mean(-1);
      const loss = reconstruction.add(divergence.div(64)).mean();
      loss.backward();
      optimizer.step();
      return loss;
    },
  };
};
