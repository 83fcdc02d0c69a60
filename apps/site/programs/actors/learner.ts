import { distributions, nn, noGrad, optim, rpcClass, rpcName, stack, tensor, type Tensor } from 'backwire';

interface Waiting {
  readonly actor: number;
  readonly state: Tensor;
  readonly answer: (action: number) => void;
}

/** One policy for all actors. */
export class Learner {
  static readonly [rpcName] = 'cart-pole/Learner';
  readonly #policy = new nn.Sequential(new nn.Linear(4, 64), new nn.ReLU(), new nn.Linear(64, 2));
  readonly #optimizer = new optim.Adam(this.#policy.parameters(), { lr: 0.01 });
  #playing: number;
  #waiting: Waiting[] = [];
  /** What each actor saw and did in this round. */
  #episodes = new Map<number, { state: Tensor; action: number }[]>();

  constructor(actors: number) {
    this.#playing = actors;
  }

  /** The action for a state [4]. It is answered when all actors that still play have asked: one forward pass for all of them. */
  act(actor: number, state: Tensor): Promise<number> {
    return new Promise((answer) => {
      this.#waiting.push({ actor, state, answer });
      this.#answer();
    });
  }

  /** An actor has ended its episode, or is gone. */
  ended(): void {
    this.#playing--;
    this.#answer();
  }

  /** Learns from this round (REINFORCE), and begins the next one with `actors`. */
  learn(actors: number): void {
    const steps = [...this.#episodes.values()].flatMap((episode) =>
      episode.map(({ state, action }, i) => ({ state, action, left: (1 - 0.99 ** (episode.length - i)) / 0.01 })),
    );
    const returns = tensor(steps.map(({ left }) => left));
    const centred = returns.sub(returns.mean());
    const weights = centred.div(centred.square().mean().sqrt().add(1e-6));
    const logits = this.#policy.forward(stack(steps.map(({ state }) => state)));
    const actions = new distributions.Categorical({ logits });
    const loss = actions
      .logProb(tensor(steps.map(({ action }) => action)))
      .mul(weights)
      .mean()
      .neg();
    this.#optimizer.zeroGrad();
    loss.backward();
    this.#optimizer.step();
    this.#episodes.clear();
    this.#playing = actors;
  }

  #answer(): void {
    if (this.#waiting.length === 0 || this.#waiting.length < this.#playing) return;
    const asked = this.#waiting.splice(0);
    const logits = noGrad(() => this.#policy.forward(stack(asked.map(({ state }) => state))));
    const actions = new distributions.Categorical({ logits }).sample().toArray() as number[];
    asked.forEach(({ actor, state, answer }, i) => {
      const action = Number(actions[i]);
      if (!this.#episodes.has(actor)) this.#episodes.set(actor, []);
      this.#episodes.get(actor)!.push({ state, action });
      answer(action);
    });
  }
}
rpcClass(Learner, { methods: ['act', 'ended', 'learn'] });
