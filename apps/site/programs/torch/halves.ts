import {
  createRRef,
  distAutograd,
  manualSeed,
  nn,
  optim,
  randn,
  rpcSync,
  tensor,
  type RRef,
  type Tensor,
} from 'backwire';
import { joinTorch, py } from '@backwire/torch';

await using agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
manualSeed(0);
const trunk = new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh()); // this half is here,
const theirs = await rpcSync('python', py<() => RRef<Tensor>[]>('model.parameters')); // the other one there
const ours = trunk.parameters().map((parameter) => createRRef<Tensor>(parameter));
const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, [...ours, ...theirs], { lr: 0.5 });

const lossOf = py<(features: Tensor, labels: Tensor) => Tensor>('model.loss');
const rows = randn([30, 4]);
const labels = tensor(Array.from({ length: 30 }, (_, i) => i % 3), { dtype: 'int64' }); // prettier-ignore
for (let step = 0; step <= 100; step++) {
  await distAutograd.context(async (id) => {
    const loss = await rpcSync('python', lossOf, [trunk.forward(rows), labels]);
    await distAutograd.backward(id, [loss]); // through Python, and back into the trunk
    await optimizer.step(id); // each parameter where it is
    if (step % 50 === 0) console.log(step, loss.item().toFixed(2));
  });
}
for (const rref of [...ours, ...theirs]) rref.dispose();
await agent.shutdown();
