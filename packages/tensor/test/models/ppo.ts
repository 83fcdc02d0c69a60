/** @file Proximal policy optimisation (Schulman et al. 2017): many steps on what was seen with an earlier policy. */
import { distributions, minimum, mseLoss, nn, optim, type Tensor } from '../../src/index.ts';
import type { MakeExample } from './example.ts';

class ActorCritic extends nn.Module {
  readonly body = new nn.Sequential(new nn.Linear(6, 16), new nn.Tanh());
  readonly actor = new nn.Linear(16, 3);
  readonly critic = new nn.Linear(16, 1);

  forward(x: Tensor): [distributions.Categorical, Tensor] {
    const h = this.body.forward(x);
    return [new distributions.Categorical({ logits: this.actor.forward(h) }), this.critic.forward(h).squeeze(-1)];
  }
}

export const ppo: MakeExample = (data) => {
  const model = new ActorCritic();
  const [seen, actions, returns, before] = [data('observations'), data('actions'), data('returns'), data('before')];
  const advantages = data('advantages');
  const optimizer = new optim.Adam(model.parameters(), { lr: 3e-3, eps: 1e-4 });
  return {
    model,
    step() {
      optimizer.zeroGrad();
      const [policy, value] = model.forward(seen);
      const ratio = policy.logProb(actions).sub(before).exp();
      const normal = advantages.sub(advantages.mean()).div(advantages.std().add(1e-8));
      const gain = minimum(ratio.mul(normal), ratio.clamp(0.8, 1.2).mul(normal)).mean();
      const loss = mseLoss(value, returns).mul(0.5).sub(gain).sub(policy.entropy().mean().mul(0.01));
      loss.backward();
      nn.utils.clipGradNorm_(model.parameters(), 0.5);
      optimizer.step();
      return loss;
    },
  };
};
