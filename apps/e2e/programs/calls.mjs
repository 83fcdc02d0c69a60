// Two workers: calls with values and tensors, an error, a stream. Nothing in it is worth a kernel.
import { createRequire } from 'node:module';
import { initRpc, rpcFunction, rpcStream, rpcSync, shutdown, tensor } from 'backwire';

const double = rpcFunction('double', (x) => x.mul(2));
const swap = rpcFunction('swap', ({ left, right }) => ({ left: right, right: left }));
const fail = rpcFunction('fail', (text) => {
  throw new RangeError(text);
});
const count = rpcFunction('count', async function* (to) {
  for (let i = 0; i < to; i++) yield i;
});

const rank = Number(process.env.RANK);
await initRpc({ name: `worker${rank}`, rank, worldSize: 2 });
if (rank === 0) {
  const small = await rpcSync('worker1', double, [tensor([1, 2, 3])]);
  const large = await rpcSync('worker1', swap, [
    { left: tensor(new Float32Array(1_000_000).fill(1.5)), right: 'text' },
  ]);
  const error = await rpcSync('worker1', fail, ['too far']).catch((thrown) => thrown);
  const items = [];
  for await (const item of rpcStream('worker1', count, [5])) items.push(item);
  const loaded = Object.keys(createRequire(import.meta.url).cache).filter((file) => file.includes('@tensorflow'));
  const answer = {
    small: small.toArray(),
    large: [large.left, large.right.size, large.right.dataSync().at(-1)],
    error: [error instanceof RangeError, error.message],
    items,
    kernels: loaded.length,
  };
  console.log(`answer ${JSON.stringify(answer)}`);
}
await shutdown();
