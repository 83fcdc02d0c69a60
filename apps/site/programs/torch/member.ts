import { initRpc, ones, rpcInfo, tensor, type Tensor } from 'backwire';
import { py, throughGateway } from '@backwire/torch/gateway'; // has nothing of Node in it

interface Average {
  add(row: Tensor): number;
  value(): Tensor;
}

const store = process.env['BACKWIRE_STORE'] ?? 'tcp://127.0.0.1:29501';
await using agent = await initRpc({ name: 'member', membership: 'dynamic', store, serve: [] });
const python = throughGateway('gateway');
const predict = py<(features: Tensor) => Tensor>('model.predict');
const chances = await python.rpcSync('python', predict, [ones([2, 16])], { timeoutMs: 5_000 });
console.log(chances.shape); // [ 2, 3 ]

const average = python.remote('python', py<Average>('model.Average'), [2]); // in Python; its owner is the gateway
await average.rpcSync().add(tensor([1, 10]));
await average.rpcSync().add(tensor([3, 30]));
console.log((await average.rpcSync().value()).toArray()); // [ 2, 20 ]
average.dispose(); // Python's object goes with the last reference to it, whoever has it

const getcwd = py<() => string>('os.getcwd');
const refused = await python.rpcSync('python', getcwd).catch((error: unknown) => rpcInfo(error)?.code);
console.log(refused); // permission-denied
await agent.shutdown();
