import { remote, tensor, type Tensor } from 'backwire';
import { joinTorch, py } from '@backwire/torch';

interface Average {
  add(row: Tensor): number;
  value(): Tensor;
}

await using agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
const average = remote('python', py<Average>('model.Average'), [2]); // made there, kept there
await average.rpcSync().add(tensor([1, 10]));
await Promise.all([average.rpcAsync().add(tensor([2, 20])), average.rpcAsync().add(tensor([6, 60]))]);
console.log((await average.rpcSync().value()).toArray()); // [ 3, 30 ]
average.dispose(); // Python's object goes with the last reference to it
await agent.shutdown();
