/** @file The agent: one policy for all observers, asked for actions by all of them at once. */
import { manualSeed, nn, optim, rpcName, stack, tensor, type Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { generator } from '../shared/random.ts';
import { ACTIONS, STATE_SIZE } from './cart-pole.ts';

const HIDDEN = 64;
/** How much a reward counts one step earlier. */
const DISCOUNT = 0.99;

interface Waiting {
  readonly observer: number;
  readonly state: Tensor;
  readonly done: (action: number) => void;
}

/** What one observer did in one episode. */
interface Episode {
  readonly states: Tensor[];
  readonly actions: number[];
}

/** What the agent made of one round. */
export interface Round {
  readonly loss: number;
  /** Forward passes. */
  readonly batches: number;
  /** States in one of them, on average. */
  readonly meanBatch: number;
}

export class Agent {
  static readonly [rpcName] = 'examples/Agent';
  private readonly policy: nn.Sequential<[nn.Linear, nn.ReLU, nn.Linear]>;
  private readonly optimizer: optim.Adam;
  private readonly random: () => number;
  private readonly observers: number;
  private active: number;
  private waiting: Waiting[] = [];
  private episodes: Episode[];
  private batches = 0;

  constructor(observers: number, seed: number, lr: number) {
    manualSeed(seed);
    this.policy = new nn.Sequential(new nn.Linear(STATE_SIZE, HIDDEN), new nn.ReLU(), new nn.Linear(HIDDEN, ACTIONS));
    this.optimizer = new optim.Adam(this.policy.parameters(), { lr });
    this.random = generator(seed, 77);
    this.observers = observers;
    this.active = observers;
    this.episodes = fresh(observers);
  }

  /** The next action of one observer. Answered when all observers that still play have asked: one forward pass for all. */
  selectAction(observer: number, state: Tensor): Promise<number> {
    return new Promise((done) => {
      this.waiting.push({ observer, state, done });
      this.answer();
    });
  }

  /** An observer's pole has fallen, or its time is over. */
  finished(observer: number): void {
    if (this.episodes[observer] === undefined) throw new RangeError(`there is no observer ${observer}`);
    this.active -= 1;
    this.answer();
  }

  /** Learns from the episodes of all observers (REINFORCE with returns of mean 0 and deviation 1), then a new round begins. */
  learn(): Round {
    const played = this.episodes.filter(({ actions }) => actions.length > 0);
    const returns = played.flatMap(({ actions }) => discounted(actions.length));
    const mean = returns.reduce((sum, value) => sum + value, 0) / returns.length;
    const deviation = Math.sqrt(returns.reduce((sum, value) => sum + (value - mean) ** 2, 0) / returns.length) + 1e-6;
    const states = stack(played.flatMap((episode) => episode.states));
    const chosen = tensor(
      played.flatMap(({ actions }) => actions.flatMap((action) => (action === 1 ? [0, 1] : [1, 0]))),
      { shape: [returns.length, ACTIONS] },
    );
    const weights = tensor(
      returns.map((value) => (value - mean) / deviation),
      { shape: [returns.length, 1] },
    );
    const loss = this.policy.forward(states).logSoftmax(1).mul(chosen).mul(weights).sum().neg().div(returns.length);
    this.optimizer.zeroGrad();
    loss.backward();
    this.optimizer.step();
    const round = { loss: loss.item(), batches: this.batches, meanBatch: returns.length / this.batches };
    this.batches = 0;
    this.active = this.observers;
    this.episodes = fresh(this.observers);
    return round;
  }

  private answer(): void {
    if (this.waiting.length === 0 || this.waiting.length < this.active) return;
    // In the order of the observers, not of their questions: the same seed plays the same games.
    const batch = this.waiting.splice(0).sort((a, b) => a.observer - b.observer);
    const chances = this.policy
      .forward(stack(batch.map(({ state }) => state)))
      .softmax(1)
      .dataSync() as Float32Array;
    this.batches += 1;
    batch.forEach(({ observer, state, done }, row) => {
      const action = this.random() < (chances[row * ACTIONS] ?? 0) ? 0 : 1;
      this.episodes[observer]?.states.push(state);
      this.episodes[observer]?.actions.push(action);
      done(action);
    });
  }
}
rpcClass(Agent, { methods: ['selectAction', 'finished', 'learn'] });

function fresh(observers: number): Episode[] {
  return Array.from({ length: observers }, () => ({ states: [], actions: [] }));
}

/** What is still to come at each of `steps` steps with a reward of 1. */
function discounted(steps: number): number[] {
  const values: number[] = [];
  for (let i = 0, value = 0; i < steps; i++) values.push((value = 1 + DISCOUNT * value));
  return values.reverse();
}
