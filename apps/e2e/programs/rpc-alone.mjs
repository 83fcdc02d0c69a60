// The same with @backwire/rpc and the tensors it depends on, and nothing else of the project.
import { initRpc, rpcFunction, rpcSync, shutdown } from '@backwire/rpc';
import { tensor } from '@backwire/tensor';

const double = rpcFunction('double', (x) => x.mul(2));
const rank = Number(process.env.RANK);
await initRpc({ name: `worker${rank}`, rank, worldSize: 2 });
if (rank === 0) console.log(`answer ${JSON.stringify((await rpcSync('worker1', double, [tensor([1, 2])])).toArray())}`);
await shutdown();
