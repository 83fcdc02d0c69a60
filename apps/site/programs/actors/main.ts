import { createRRef, getWorkerInfos, initRpc, manualSeed, rpcAsync, shutdown } from 'backwire';
import { play } from './actor.ts';
import { Learner } from './learner.ts';

const rank = Number(process.env.RANK);
await initRpc({ name: rank === 0 ? 'learner' : `actor${rank}` });

if (rank === 0) {
  manualSeed(0);
  const actors = getWorkerInfos().filter(({ name }) => name.startsWith('actor'));
  const learner = new Learner(actors.length);
  using shared = createRRef(learner);
  for (let round = 1; round <= 40; round++) {
    const steps = await Promise.all(actors.map(({ name, id }) => rpcAsync(name, play, [id, shared])));
    learner.learn(actors.length);
    const mean = steps.reduce((sum, each) => sum + each, 0) / steps.length;
    if (round % 10 === 0) console.log(`round ${round}: the poles stood ${mean.toFixed(0)} steps`);
  }
}
await shutdown();
