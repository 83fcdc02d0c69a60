/**
 * @file Actors and a learner: observers balance poles and ask one agent what to do; it answers all of them with one forward pass.
 *
 *     backwire run --standalone --nproc-per-node 5 apps/examples/src/04-reinforcement/main.ts --rounds 100
 */
import { parseArgs } from 'node:util';
import { rpcName, tensor } from '@backwire/tensor';
import { initRpc, rpcClass, shutdown } from '@backwire/rpc';
import { remote, rrefs, type RRef } from '@backwire/rref';
import { generator } from '../shared/random.ts';
import { Agent } from './agent.ts';
import { CartPole } from './cart-pole.ts';

/** An episode that lasts this long is a success. */
const MAX_STEPS = 200;

class Observer {
  static readonly [rpcName] = 'examples/Observer';
  private readonly index: number;
  private readonly agent: RRef<Agent>;
  private readonly game: CartPole;

  constructor(index: number, agent: RRef<Agent>, seed: number) {
    this.index = index;
    this.agent = agent;
    this.game = new CartPole(generator(seed, index));
  }

  /** Plays one episode, every action asked of the agent, and says how many steps it lasted. */
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

const { rounds, seed, lr } = parseArgs({
  options: {
    rounds: { type: 'string', default: '100' },
    seed: { type: 'string', default: '0' },
    lr: { type: 'string', default: '0.01' },
  },
}).values;
const rank = Number(process.env['RANK'] ?? 0);
const worldSize = Number(process.env['WORLD_SIZE'] ?? 1);
if (worldSize < 2) {
  console.error('the agent needs observers: backwire run --standalone --nproc-per-node 5 main.ts');
  process.exit(2);
}
await initRpc({ name: rank === 0 ? 'agent' : `observer${rank - 1}`, rank, worldSize, extensions: [rrefs()] });

if (rank === 0) {
  const observers = worldSize - 1;
  const agent = remote('agent', Agent, [observers, Number(seed), Number(lr)]);
  const players = Array.from({ length: observers }, (_, index) =>
    remote(`observer${index}`, Observer, [index, agent, Number(seed)]),
  );
  for (let round = 1; round <= Number(rounds); round++) {
    await Promise.all(players.map((player) => player.rpcAsync({ timeoutMs: 0 }).play()));
    const { meanSteps, meanBatch } = await agent.rpcSync().learn();
    if (round % 10 === 0) {
      console.log(
        `round ${round}: poles stood ${meanSteps.toFixed(1)} steps, ${meanBatch.toFixed(2)} states a forward pass`,
      );
    }
  }
}
await shutdown();
