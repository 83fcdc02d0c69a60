import { ones, rpcSync, type Tensor } from 'backwire';
import { joinTorch, py } from '@backwire/torch';

await using agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
const predict = py<(features: Tensor) => Tensor>('model.predict');
using chances = await rpcSync('python', predict, [ones([2, 16])], { timeoutMs: 5_000 });
console.log(chances.shape, chances.sum().item().toFixed(3)); // [ 2, 3 ] 2.000
await agent.shutdown(); // waits for the others, as torch's does
