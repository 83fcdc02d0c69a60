// One worker that calls itself, and computes: for bundles that run where no package is installed.
import { backendName, initRpc, lift, ones, rpcFunction, rpcSync, setBackend, shutdown } from 'backwire';

const product = rpcFunction('product', (x, y) => x.matmul(y));

async function main() {
  await initRpc({ name: 'only', rank: 0, worldSize: 1 });
  const x = ones([100, 100]);
  const y = await rpcSync('only', product, [x, x]);
  const answer = [y.sum().item(), backendName()];
  try {
    lift((t) => t)(x);
  } catch (error) {
    answer.push(error.message);
  }
  await setBackend('cpu');
  const same = lift((t) => t)(x);
  answer.push(same.sum().item());
  console.log(`answer ${JSON.stringify(answer)}`);
  await shutdown();
}

void main();
