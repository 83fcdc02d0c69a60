/** @file PyTorch's example of reinforcement learning, with the program and the comparisons of the original. */
import { afterEach, expect, it } from 'vitest';
import {
  concat,
  createAgent,
  createRRef,
  distributions,
  getWorkerInfo,
  manualSeed,
  nn,
  optim,
  rand,
  randn,
  remote,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcName,
  rpcSync,
  tensor,
  type RpcAgent,
  type RRef,
  type Tensor,
} from '../src/index.ts';

let agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
});

const WORKERS = 4;
const [TOTAL_EPISODE_STEP, GAMMA, SEED, REWARD_THRESHOLD] = [5_000, 0.1, 543, 475];
/** Steps of an episode, after which the environment is done. */
const EPISODE = 10;
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

class Policy extends nn.Module {
  readonly affine1 = new nn.Linear(4, 128);
  readonly dropout = new nn.Dropout(0.6);
  readonly affine2 = new nn.Linear(128, 2);
  forward(x: Tensor): Tensor {
    return this.affine2.forward(this.dropout.forward(this.affine1.forward(x)).relu()).softmax(1);
  }
}

/** States and rewards at random, as the original has them. */
class DummyEnv {
  private iter = 0;
  reset(): Tensor {
    this.iter = 0;
    return randn([4]);
  }
  step(action: number): { state: Tensor; reward: number; done: boolean } {
    if (action !== 0 && action !== 1) throw new RangeError(`there is no action ${action}`);
    this.iter++;
    return { state: randn([4]), reward: rand([1]).item() * REWARD_THRESHOLD, done: this.iter >= EPISODE };
  }
}

class Observer {
  static readonly [rpcName] = 'upstream-rl/Observer';
  private readonly id = getWorkerInfo().id;
  private readonly env = new DummyEnv();
  constructor() {
    manualSeed(SEED);
  }
  async runEpisode(agent: RRef<Agent>, steps: number): Promise<void> {
    let state = this.env.reset();
    for (let i = 0; i < steps; i++) {
      const action = await rpcSync(agent.owner(), selectAction, [agent, this.id, state]);
      const next = this.env.step(action);
      state = next.state;
      await rpcSync(agent.owner(), reportReward, [agent, this.id, next.reward]);
      if (next.done) break;
    }
  }
}
rpcClass(Observer, { methods: [] });

class Agent {
  static readonly [rpcName] = 'upstream-rl/Agent';
  readonly rref: RRef<Agent> = createRRef<Agent>(this);
  readonly observers: RRef<Observer>[] = [];
  readonly rewards = new Map<number, number[]>();
  readonly logProbs = new Map<number, Tensor[]>();
  readonly policy = new Policy();
  runningReward = 0;
  private readonly optimizer = new optim.Adam(this.policy.parameters(), { lr: 1e-2 });

  constructor(worldSize: number) {
    for (let rank = 1; rank < worldSize; rank++) {
      const info = getWorkerInfo(`worker${rank}`);
      this.observers.push(remote(info, Observer));
      this.forget(info.id);
    }
  }

  selectAction(observer: number, state: Tensor): number {
    const choice = new distributions.Categorical({ probs: this.policy.forward(state.unsqueeze(0)) });
    const action = choice.sample();
    this.logProbs.get(observer)!.push(choice.logProb(action));
    return Number(action.item());
  }

  async runEpisode(steps: number): Promise<void> {
    await Promise.all(
      this.observers.map((observer) => rpcAsync(observer.owner(), runEpisode, [observer, this.rref, steps])),
    );
  }

  /** Learns from what all observers did, and says what the one got that got least. */
  finishEpisode(): number {
    const probs = [...this.logProbs.values()].flat();
    const rewards = [...this.rewards.values()];
    const least = Math.min(...rewards.map(sum));
    this.runningReward = 0.05 * least + 0.95 * this.runningReward;
    for (const observer of this.rewards.keys()) this.forget(observer);
    let to = 0;
    const returns = tensor(rewards.flat().toReversed().map((reward) => (to = reward + GAMMA * to)).reverse()); // prettier-ignore
    const normal = returns.sub(returns.mean()).div(returns.std().add(2 ** -23));
    const weights = normal.unbind(0);
    expect(weights).toHaveLength(probs.length);
    this.optimizer.zeroGrad();
    concat(probs.map((logProb, i) => logProb.neg().mul(weights[i]!)))
      .sum()
      .backward();
    this.optimizer.step();
    return least;
  }

  private forget(observer: number): void {
    this.rewards.set(observer, []);
    this.logProbs.set(observer, []);
  }
}
rpcClass(Agent, { methods: [] });

const selectAction = rpcFunction(
  'upstream-rl/selectAction',
  async (rref: RRef<Agent>, observer: number, state: Tensor): Promise<number> =>
    (await rref.localValue()).selectAction(observer, state),
);
const reportReward = rpcFunction(
  'upstream-rl/reportReward',
  async (rref: RRef<Agent>, observer: number, reward: number): Promise<void> => {
    (await rref.localValue()).rewards.get(observer)!.push(reward);
  },
);
const runEpisode = rpcFunction(
  'upstream-rl/runEpisode',
  async (rref: RRef<Observer>, agent: RRef<Agent>, steps: number): Promise<void> => {
    using held = agent;
    await (await rref.localValue()).runEpisode(held, steps);
  },
);

it('an agent behind an RRef to itself acts for three observers, and learns from their rewards until they are enough', async () => {
  const store = 'memory://umbrella-upstream-rl';
  agents = await Promise.all(
    Array.from({ length: WORKERS }, (_, rank) =>
      createAgent({ name: `worker${rank}`, rank, worldSize: WORKERS, store }),
    ),
  );
  // The others are observers that wait for what the first asks them.
  await agents[0]!.run(async () => {
    const agent = new Agent(WORKERS);
    expect(agent.observers.map((observer) => observer.owner().id)).toEqual([1, 2, 3]);
    const weights = (): number[][] => agent.policy.parameters().map((p) => p.reshape([-1]).toArray() as number[]);
    const before = weights();
    let running = 0;
    while (agent.runningReward <= REWARD_THRESHOLD) {
      await agent.runEpisode(Math.floor(TOTAL_EPISODE_STEP / (WORKERS - 1)));
      const seen = [...agent.rewards].map(([id, own]) => [id, own.length, agent.logProbs.get(id)?.length]);
      expect(seen).toEqual([1, 2, 3].map((id) => [id, EPISODE, EPISODE]));
      const least = agent.finishEpisode();
      expect(least).toBeGreaterThan(0);
      expect(agent.runningReward).toBe(0.05 * least + 0.95 * running);
      running = agent.runningReward;
    }
    expect(agent.runningReward).toBeGreaterThan(0);
    const after = weights();
    expect(after.flat().every(Number.isFinite)).toBe(true);
    // All four parameters were trained.
    expect(after.map((values, i) => values.some((value, at) => value !== before[i]![at]))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    for (const rref of [agent.rref, ...agent.observers]) rref.dispose();
  });
});
