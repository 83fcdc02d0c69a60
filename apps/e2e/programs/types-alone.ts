/** What a user's compiler sees of @backwire/rpc with what it depends on. */
import { initRpc, rpcFunction, rpcStream, shutdown, type RpcAgent } from '@backwire/rpc';
import * as internal from '@backwire/rpc/internal';
import { tensor, type Tensor } from '@backwire/tensor';

const count = rpcFunction('count', async function* (to: number): AsyncGenerator<Tensor> {
  for (let i = 0; i < to; i++) yield tensor([i]);
});

export async function main(): Promise<number> {
  const agent: RpcAgent = await initRpc({ name: 'worker0', rank: 0, worldSize: 1 });
  let sum = 0;
  for await (const item of rpcStream(agent.name, count, [3])) sum += Number(item.item());
  await shutdown();
  return sum + Object.keys(internal).length;
}
