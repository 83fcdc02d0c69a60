/** What a user's compiler sees of @backwire/torch, and of the part of it that pages use. */
import { initRpc, remote, rpcSync, tensor, type RRef, type Tensor } from 'backwire';
import { createTorchAgent, joinTorch, loadTorchFile, py, serveGateway, type TorchAgent } from '@backwire/torch';
import { py as pyInPages, throughGateway, type Gateway } from '@backwire/torch/gateway';

interface Net {
  forward(x: Tensor): Tensor;
}
const predict = py<(x: Tensor) => Tensor>('model.predict');

export async function main(file: Uint8Array): Promise<unknown> {
  const agent: TorchAgent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
  const y: Tensor = await rpcSync('python', predict, [tensor([1, 2])], { timeoutMs: 5_000 });
  // @ts-expect-error -- the arguments are those of the function
  await rpcSync('python', predict, ['text']).catch(() => undefined);
  const net: RRef<Net> = remote('python', py<Net>('model.Net'), [64]);
  const z: Tensor = await net.rpcSync().forward(y);
  await agent.shutdown();
  return [z, loadTorchFile(file)];
}

export async function gateway(): Promise<void> {
  const torch: TorchAgent = await createTorchAgent({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
  await initRpc({ name: 'gateway', membership: 'dynamic', serve: [] });
  const end: () => void = serveGateway(torch, { serve: [predict, { make: py('model.Net'), methods: ['forward'] }] });
  end();
}

export async function member(): Promise<Tensor> {
  const python: Gateway = throughGateway('gateway');
  const net: RRef<Net> = python.remote('python', pyInPages<Net>('model.Net'), [64]);
  return net.rpcSync().forward(await python.rpcSync('python', predict, [tensor([1])]));
}
