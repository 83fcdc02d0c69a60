import { initRpc, rpcFunction, shutdown, type Tensor } from 'backwire';

rpcFunction('predict', (x: Tensor) => x.mul(2).add(1));

await initRpc({ name: 'server', membership: 'dynamic', transports: ['unix', 'ws'] });
console.log('waiting for pages');
process.on('SIGINT', () => {
  shutdown({ timeoutMs: 2_000 }).catch((error: Error) => console.error(error.message)); // calls that last longer
});
