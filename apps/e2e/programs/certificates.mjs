// Two workers with certificates: the one of rank 0 calls, and says what came of it.
import { initRpc, rpcAsync, rpcFunction, shutdown } from 'backwire';

const twice = rpcFunction('twice', (x) => 2 * x);

const rank = Number(process.env.RANK);
const folder = process.env.CERTIFICATES;
// Whose certificate it shows.
const whose = rank === 1 ? process.env.WHOSE : 'w0';
await initRpc({
  name: `w${rank}`,
  rank,
  worldSize: 2,
  transports: ['tcp'],
  security: { mode: 'mtls', key: `${folder}/${whose}.key`, cert: `${folder}/${whose}.pem`, ca: `${folder}/ca.pem` },
});
if (rank === 0) {
  const answer = await rpcAsync('w1', twice, [21], { timeoutMs: 20_000 }).catch((thrown) => thrown.code);
  console.log(`answer ${JSON.stringify(answer)}`);
  // The other does not know that it is over: it could not be told.
  if (answer !== 42) process.exit();
}
await shutdown();
