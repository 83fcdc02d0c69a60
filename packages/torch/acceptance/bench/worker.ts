/** @file The second worker of this kind in the measurements: its process. */
import { rpcFunction } from '@backwire/rpc';
import { createTorchAgent } from '../../src/join.ts';

rpcFunction('bench.same', (value: unknown) => value);
// Whoever started it is gone.
process.once('disconnect', () => process.exit());
const agent = await createTorchAgent({
  name: 'second',
  rank: 3,
  worldSize: 4,
  initMethod: process.argv[2],
  trustNetwork: true,
});
await agent.shutdown();
process.disconnect();
