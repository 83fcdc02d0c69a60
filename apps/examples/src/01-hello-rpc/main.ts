/**
 * @file Two workers: one calls functions of the other, with tensors, errors, streams and a deadline.
 *
 *     backwire run --standalone --nproc-per-node 2 apps/examples/src/01-hello-rpc/main.ts
 */
import { add, tensor, type Tensor } from '@backwire/tensor';
import { callContext, initRpc, rpcAsync, rpcFunction, RpcError, rpcStream, rpcSync, shutdown } from '@backwire/rpc';

const scale = rpcFunction('hello/scale', (x: Tensor, by: number) => x.mul(by));
const fail = rpcFunction('hello/fail', (): number => {
  throw new RangeError('no such thing');
});
const countTo = rpcFunction('hello/count-to', async function* (last: number) {
  for (let i = 1; i <= last; i++) yield i;
});
const dawdle = rpcFunction('hello/dawdle', async () => {
  const { signal } = callContext();
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
});

const rank = Number(process.env['RANK'] ?? 0);
const worldSize = Number(process.env['WORLD_SIZE'] ?? 1);
if (worldSize !== 2) {
  console.error('hello-rpc needs two workers: backwire run --standalone --nproc-per-node 2 main.ts');
  process.exit(2);
}
await initRpc({ name: `worker${rank}`, rank, worldSize });

if (rank === 0) {
  const x = tensor([1, 2, 3]);
  console.log('scaled', (await rpcSync('worker1', scale, [x, 2])).toArray());
  console.log('added', (await rpcAsync('worker1', add, [x, 10])).toArray());
  await rpcSync('worker1', fail).catch((error: unknown) =>
    console.log('failed', error instanceof RangeError ? `RangeError: ${error.message}` : error),
  );
  const numbers: number[] = [];
  for await (const i of rpcStream('worker1', countTo, [100])) {
    numbers.push(i);
    // Leaving the loop stops the stream on the other side too.
    if (i === 5) break;
  }
  console.log('streamed', numbers);
  await rpcSync('worker1', dawdle, [], { timeoutMs: 100 }).catch((error: unknown) =>
    console.log('gave up', error instanceof RpcError ? error.code : error),
  );
}
await shutdown();
