/** @file A process that observers are made in: joins a group, serves, and ends with it. */
import { createTorchAgent } from '../../src/index.ts';
import { serveObservers } from './observer.ts';

const [name = '', rank, worldSize, initMethod] = process.argv.slice(2);
// Whoever started it is gone.
process.once('disconnect', () => process.exit(1));
const agent = await createTorchAgent({
  name,
  rank: Number(rank),
  worldSize: Number(worldSize),
  initMethod,
  trustNetwork: true,
  initTimeoutMs: 600_000,
});
serveObservers(agent);
process.send?.('ready');
await agent.shutdown();
process.disconnect();
