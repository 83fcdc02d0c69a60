/** @file What every process of the group runs: its rank says which role it plays. */
import { initRpc, shutdown } from 'backwire';
import { setBackend } from '@backwire/tensor';
import { coordinate } from './coordinator.ts';
import { parseOptions } from './options.ts';
import { COORDINATOR, nameOf, worldSize } from './roles.ts';

const options = parseOptions(process.argv.slice(2));
if (options === undefined) throw new Error('a worker needs options');
const rank = Number(process.env['RANK']);
const name = nameOf(rank);

await setBackend('auto');
await initRpc({ name, rank, worldSize: worldSize(options.trainers), initTimeoutMs: 60_000 });
if (name === COORDINATOR) await coordinate(options);
// The server and the trainers are called; this waits until nobody needs them any more.
await shutdown();
