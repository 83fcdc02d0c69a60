import { initRpc, rpcFunction, rpcSync, shutdown, tensor, type Tensor } from 'backwire';

// A name that all workers know, and what it means.
const scale = rpcFunction('scale', (x: Tensor, by: number) => x.mul(by));

await initRpc({ name: `worker${process.env.RANK}` });
if (process.env.RANK === '0') {
  const y = await rpcSync('worker1', scale, [tensor([1, 2, 3]), 2]);
  console.log(y.toArray());
}
await shutdown();
