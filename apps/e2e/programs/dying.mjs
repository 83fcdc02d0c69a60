// Two workers: one dies in the middle of what the other asked of it. Everything settles.
import { initRpc, remote, rpcAsync, rpcFunction, rpcStream, shutdown, tensor } from 'backwire';

const never = rpcFunction('never', () => new Promise(() => undefined));
const count = rpcFunction('count', async function* () {
  for (let i = 0; ; i++) {
    yield i;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});
const die = rpcFunction('die', () => process.kill(process.pid, 'SIGKILL'));

const rank = Number(process.env.RANK);
await initRpc({ name: `worker${rank}`, rank, worldSize: 2 });
if (rank === 0) {
  const code = (thrown) => thrown.code ?? thrown.name;
  const call = rpcAsync('worker1', never, [tensor(new Float32Array(1_000_000))]).catch(code);
  const kept = remote('worker1', never, []);
  const fetched = kept.toHere().catch(code);
  const items = (async () => {
    for await (const item of rpcStream('worker1', count, []))
      if (item === 3) await rpcAsync('worker1', die, []).catch(code);
  })().catch(code);
  console.log(`answer ${JSON.stringify(await Promise.all([call, fetched, items]))}`);
  kept.dispose();
}
await shutdown({ graceful: rank !== 0 });
