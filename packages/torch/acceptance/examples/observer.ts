/** @file An observer of reinforcement.py, written for a worker of this kind. */
import { rpcSync } from '@backwire/rpc';
import { tensor, type Tensor } from '@backwire/tensor';
import { py, type TorchAgent } from '../../src/index.ts';
import { CartPole } from './cart-pole.ts';

const selectAction = py.asyncExecution<(number: number, state: Tensor) => number>('reinforcement.select_action');

class Observer {
  private readonly number: number;
  private readonly env: CartPole;

  constructor(number: number, seed: number) {
    this.number = number;
    this.env = new CartPole(seed);
  }

  /** Plays for so many steps, and begins again whenever the pole has fallen; where it fell. */
  async run_episode(to: string, steps: number): Promise<number[]> {
    let state = this.env.reset();
    const falls: number[] = [];
    for (let step = 0; step < steps; step++) {
      using seen = tensor(state);
      const next = this.env.step(await rpcSync(to, selectAction, [this.number, seen]));
      state = next.state;
      if (!next.fell) continue;
      falls.push(step);
      state = this.env.reset();
    }
    return falls;
  }
}

/** Lets Python make observers here. */
export function serveObservers(agent: TorchAgent): void {
  agent.offer('reinforcement.Observer', Observer, ['run_episode']);
}
