// A program of the older kind of module.
const { tensor, initRpc, rpcFunction, rpcSync, shutdown, launch, registerValueType } = require('backwire');

async function main() {
  const own = rpcFunction('own', (x) => x.add(1));
  await initRpc({ name: 'only', rank: 0, worldSize: 1 });
  const y = await rpcSync('only', own, [tensor([1])]);
  console.log(`answer ${JSON.stringify([y.toArray(), typeof launch, typeof registerValueType])}`);
  await shutdown();
}

main();
