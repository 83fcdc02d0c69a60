/** @file The agent, which chooses actions, and the observers, which ask for them. */
import { manualSeed, nn, rand, rpcName, stack, type Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { generator } from '../shared/random.ts';
import type { Setting } from './options.ts';

/** Seconds, and per second. */
export interface Measured {
  readonly latency: Float64Array;
  readonly throughput: Float64Array;
}

interface Waiting {
  readonly observer: number;
  readonly state: Tensor;
  readonly done: (action: number) => void;
}

export class Agent {
  static readonly [rpcName] = 'examples/rl-benchmark/Agent';
  private readonly policy: nn.Sequential<[nn.Flatten, nn.Linear, ...nn.Linear[], nn.Softmax]>;
  private readonly random = generator(1);
  private readonly batchSize: number;
  private readonly outFeatures: number;
  private waiting: Waiting[] = [];
  private began = 0;
  private latency: number[] = [];
  private throughput: number[] = [];

  constructor({ stateSize, nlayers, outFeatures, worldSize }: Setting) {
    manualSeed(0);
    const inFeatures = stateSize.reduce((product, size) => product * size, 1);
    this.policy = new nn.Sequential(
      new nn.Flatten(),
      new nn.Linear(inFeatures, outFeatures),
      ...Array.from({ length: nlayers }, () => new nn.Linear(outFeatures, outFeatures)),
      new nn.Softmax(1),
    );
    this.batchSize = worldSize - 2;
    this.outFeatures = outFeatures;
  }

  /** Answered when all observers have asked: one forward pass for all of them. */
  selectActionBatch(observer: number, state: Tensor): Promise<number> {
    return new Promise((done) => {
      if (this.waiting.length === 0) this.began = performance.now();
      this.waiting.push({ observer, state, done });
      if (this.waiting.length < this.batchSize) return;
      const batch = this.waiting.splice(0);
      const actions = this.choose(stack(batch.map((asked) => asked.state)));
      batch.forEach((asked, i) => asked.done(actions[i] ?? 0));
      this.record(this.began, batch.length);
    });
  }

  /** A forward pass of its own for each. */
  selectActionNonBatch(_observer: number, state: Tensor): number {
    const began = performance.now();
    const [action = 0] = this.choose(state.unsqueeze(0));
    this.record(began, 1);
    return action;
  }

  /** What was measured in the episode; the next one starts from nothing. */
  finishEpisode(): Measured {
    const measured = { latency: Float64Array.from(this.latency), throughput: Float64Array.from(this.throughput) };
    this.latency = [];
    this.throughput = [];
    return measured;
  }

  /** An action for each state [n, …], drawn by the policy's chances. */
  private choose(states: Tensor): number[] {
    const chances = this.policy.forward(states).dataSync() as Float32Array;
    return Array.from({ length: states.shape[0] ?? 0 }, (_, row) => {
      let left = this.random();
      const own = chances.subarray(row * this.outFeatures, (row + 1) * this.outFeatures);
      const drawn = own.findIndex((chance) => (left -= chance) < 0);
      return drawn === -1 ? this.outFeatures - 1 : drawn;
    });
  }

  private record(began: number, answered: number): void {
    const seconds = (performance.now() - began) / 1000;
    this.latency.push(seconds);
    this.throughput.push(answered / seconds);
  }
}
rpcClass(Agent, { methods: ['selectActionBatch', 'selectActionNonBatch', 'finishEpisode'] });

export class Observer {
  static readonly [rpcName] = 'examples/rl-benchmark/Observer';
  private readonly id: number;
  private readonly agent: RRef<Agent>;
  private readonly batch: boolean;
  private readonly stateSize: readonly number[];

  constructor(id: number, agent: RRef<Agent>, { batch, stateSize }: Setting) {
    manualSeed(id);
    this.id = id;
    this.agent = agent;
    this.batch = batch;
    this.stateSize = stateSize;
  }

  /** `steps` times: a random state, and the agent's action for it. */
  async runEpisode(steps: number): Promise<Measured> {
    const agent = this.agent.rpcSync();
    const latency = new Float64Array(steps);
    for (let step = 0; step < steps; step++) {
      const state = rand(this.stateSize);
      const began = performance.now();
      await (this.batch ? agent.selectActionBatch(this.id, state) : agent.selectActionNonBatch(this.id, state));
      latency[step] = (performance.now() - began) / 1000;
    }
    return { latency, throughput: latency.map((seconds) => 1 / seconds) };
  }
}
rpcClass(Observer, { methods: ['runEpisode'] });
