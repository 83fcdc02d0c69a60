// A worker in a group of stock PyTorch, whose other worker is a process of Python with nothing of ours in it.
import { ones, remote, rpcFunction, rpcInfo, rpcSync, tensor } from 'backwire';
import { joinTorch, py } from '@backwire/torch';

const double = rpcFunction('words.double', (x) => x.mul(2));
const agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true, serve: [double] });
const sum = await rpcSync('python', py('helpers.total'), [ones([2, 3])], { timeoutMs: 30_000 });
const counter = remote('python', py('helpers.Counter'), [40]);
const counted = await counter.rpcSync().add(2);
// Python calls back.
const doubled = await rpcSync('python', py('helpers.through_node'), [tensor([1, 2])], { timeoutMs: 30_000 });
const failed = await rpcSync('python', py('helpers.fails')).catch((error) => {
  const { remoteName, remoteStack } = rpcInfo(error);
  return [remoteName, remoteStack.includes('helpers.py')];
});
counter.dispose();
console.log('answer', JSON.stringify([sum, counted, doubled.toArray(), failed]));
await agent.shutdown();
