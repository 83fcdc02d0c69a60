/** @file An observer: it plays one pole after the other, every action asked of the agent. */
import { rpcName, tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { generator } from '../shared/random.ts';
import type { Agent } from './agent.ts';
import { CartPole, MAX_STEPS } from './cart-pole.ts';

export class Observer {
  static readonly [rpcName] = 'examples/Observer';
  private readonly index: number;
  private readonly agent: RRef<Agent>;
  private readonly game: CartPole;

  constructor(index: number, agent: RRef<Agent>, seed: number) {
    this.index = index;
    this.agent = agent;
    this.game = new CartPole(generator(seed, index));
  }

  /** Plays one episode and says how many steps it lasted. */
  async play(): Promise<number> {
    const agent = this.agent.rpcSync();
    let state = this.game.reset();
    for (let step = 1; ; step++) {
      const next = this.game.step(await agent.selectAction(this.index, tensor(state)));
      state = next.state;
      if (!next.over && step < MAX_STEPS) continue;
      await agent.finished(this.index);
      return step;
    }
  }
}
rpcClass(Observer, { methods: ['play'] });
