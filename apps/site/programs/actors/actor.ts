import { rpcFunction, tensor, type RRef } from 'backwire';
import { CartPole } from './cart-pole.ts';
import type { Learner } from './learner.ts';

/** Plays one episode and says how many steps the pole stood. Every action is asked of the learner. */
export const play = rpcFunction('cart-pole/play', async (actor: number, learner: RRef<Learner>) => {
  const game = new CartPole();
  let state = game.reset();
  let steps = 0;
  try {
    for (let over = false; !over && steps < 200; steps++) {
      const action = await learner.rpcSync().act(actor, tensor(state));
      ({ state, over } = game.step(action));
    }
  } finally {
    await learner.rpcSync().ended(); // so that nobody waits for this one
  }
  return steps;
});
