/** @file A worker that joins, and stays until it is killed: its process. */
import { rpcFunction } from '@backwire/rpc';
import { createTorchAgent } from '../../src/join.ts';

rpcFunction('churn.same', (value: unknown) => value);
// Whoever started it is gone.
process.once('disconnect', () => process.exit());
const [name = '', initMethod = ''] = process.argv.slice(2);
process.send?.('joining');
await createTorchAgent({ name, membership: 'dynamic', initMethod, trustNetwork: true });
process.send?.('joined');
