/** @file What every process of the group runs: its rank says which role it plays. */
import { initRpc, shutdown } from 'backwire';
import { setBackend } from '@backwire/tensor';
import { OptionError } from '../shared/flags.ts';
import { coordinate } from './coordinator.ts';
import { coordinateElastically, serveElastically } from './elastic.ts';
import { HELP, parseOptions, type TrainOptions } from './options.ts';
import { COORDINATOR, nameOf, worldSize } from './roles.ts';

/** One of a fixed number of workers. */
async function work(name: string, rank: number, options: TrainOptions): Promise<void> {
  await initRpc({ name, rank, worldSize: worldSize(options.trainers), initTimeoutMs: 60_000 });
  if (name === COORDINATOR) await coordinate(options);
  // The server and the trainers are called; this waits until nobody needs them any more.
  await shutdown();
}

/** One of a group that workers join and leave. */
async function workElastically(name: string, options: TrainOptions): Promise<void> {
  await initRpc({ name, membership: 'dynamic', initTimeoutMs: 60_000 });
  if (name === COORDINATOR) await coordinateElastically(options);
  else await serveElastically();
  await shutdown();
}

async function main(argv: readonly string[]): Promise<void> {
  const options = parseOptions(argv);
  if (options === undefined) {
    process.stdout.write(HELP);
    return;
  }
  if (process.env['RANK'] === undefined)
    throw new OptionError('a worker is started by a launcher, which gives it a RANK');
  const rank = Number(process.env['RANK']);
  await setBackend('auto');
  await (options.elastic ? workElastically(nameOf(rank), options) : work(nameOf(rank), rank, options));
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof OptionError)) throw error;
  console.error(`parameter-server: ${error.message}; see --help`);
  process.exitCode = 2;
}
