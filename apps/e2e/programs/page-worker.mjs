// Whom the page calls. Says where the group meets, and stays until it is told to stop.
import { initRpc, rpcFunction, shutdown } from 'backwire';

rpcFunction('scale', (x, by) => x.mul(by));
await initRpc({
  name: 'worker',
  membership: 'dynamic',
  transports: ['unix', 'ws'],
  security: { mode: 'hmac', secret: process.env.SECRET },
});
console.log('ready');
process.stdin.once('end', () => void shutdown({ graceful: false }).then(() => process.exit())).resume();
