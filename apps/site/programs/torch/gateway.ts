import { initRpc } from 'backwire';
import { createTorchAgent, py, serveGateway } from '@backwire/torch';

// Of the torch group, beside the default agent, which is of the Backwire group.
const torch = await createTorchAgent({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
const agent = await initRpc({
  name: 'gateway',
  rank: 0,
  membership: 'dynamic',
  store: process.env['BACKWIRE_STORE'] ?? 'tcp://127.0.0.1:29501',
  transports: ['unix', 'ws'],
  serve: [],
});
// What members may call in Python, and nothing else.
serveGateway(torch, {
  serve: [py('model.predict'), { make: py('model.Average'), methods: ['add', 'value'] }],
});
console.log('open');
process.on('SIGINT', () => void agent.shutdown().then(() => torch.shutdown()));
