/**
 * @file PyTorch's parameter-server benchmark: data-parallel training whose gradients are averaged by servers or by all-reduce.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/06-parameter-server-benchmark/main.ts --ddp-hook rpc_hook
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rpcAsync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { chartSvg, type Series } from '../shared/chart.ts';
import { runExample } from '../shared/example.ts';
import { prepareOutput } from '../shared/flags.ts';
import { checkClasses, checkSizes, dataConfiguration, modelConfiguration } from './configurations.ts';
import { combined, type Metrics, metricsTable, summarize } from './metrics.ts';
import { checkRoles, flags, nameOf, type Options, serverOf, sizes, trainersOf } from './options.ts';
import { type AverageParameterServer, SERVERS } from './server.ts';
import { type DataBatch, dummyData, runTrainer, type TrainerTask } from './trainer.ts';

await runExample({
  program: import.meta.filename,
  name: 'parameter-server-benchmark',
  about: `
usage: node --import tsx --conditions=@backwire/source apps/examples/src/06-parameter-server-benchmark/main.ts [flags]

A port of PyTorch's benchmarks/distributed/rpc/parameter_server, with its roles, flags, configuration files, hooks, metrics and
report. Trainers hold replicas of a model; a hook sends each bucket of gradients to a server, or reduces it among the trainers. All
times are in seconds. The servers answer with the mean, as the original means to (it answers with the sum). Cuda trainers and servers
are accepted for their roles; they compute like the others.`,
  flags,
  workers: (options) => Array.from({ length: sizes(options).world }, (_, rank) => nameOf(rank, options)),
  leader: (options) => sizes(options).world - 1,
  launch: (options) => ({ masterAddr: options['master-addr'], masterPort: options['master-port'] }),
  rpcTimeoutMs: (options) => options['rpc-timeout'] * 1000,
  check: (options) => {
    checkRoles(options);
    checkSizes(dataConfiguration(options), modelConfiguration(options));
    checkClasses(options);
    prepareOutput(options.out);
  },
  run,
});

/** The master: makes the servers, shares the data out, warms up, measures, and prints the metrics. */
async function run(options: Options): Promise<void> {
  const { trainers, servers: serverCount } = sizes(options);
  console.log(`${Object.entries(options).map(([flag, value]) => `${flag}=${value}`).join(' ')}\n`); // prettier-ignore
  const servers = new Map<number, RRef<AverageParameterServer>>();
  for (let rank = trainers; rank < trainers + serverCount; rank++)
    servers.set(rank, remote(nameOf(rank, options), SERVERS[options.server as keyof typeof SERVERS], [trainersOf(rank, options)])); // prettier-ignore
  const batches = dummyData(dataConfiguration(options), options['batch-size'], options['torch-seed']);
  const pass = (): Promise<Metrics[]> => callTrainers(options, batches, servers);
  await pass();
  await Promise.all([...servers.values()].map((server) => server.rpcSync().resetState()));
  console.log('benchmark warmup done\n');
  const began = performance.now();
  const trained = await pass();
  const seconds = (performance.now() - began) / 1000;
  const served = await Promise.all([...servers.values()].map((server) => server.rpcSync().getMetrics()));
  report(options, trained, served, [...servers.keys()], seconds);
  for (const server of servers.values()) server.dispose();
}

/** One pass of all trainers, each over its own batches: every `trainers`-th. */
async function callTrainers(
  options: Options,
  batches: readonly DataBatch[],
  servers: ReadonlyMap<number, RRef<AverageParameterServer>>,
): Promise<Metrics[]> {
  const { trainers } = sizes(options);
  const task: TrainerTask = {
    trainers: Array.from({ length: trainers }, (_, rank) => nameOf(rank, options)),
    model: modelConfiguration(options),
    hook: options['ddp-hook'],
    backend: options.backend,
    epochs: options.epochs,
    seed: options['torch-seed'],
  };
  return Promise.all(
    task.trainers.map((name, rank) => {
      const share = batches.filter((_, i) => i % trainers === rank);
      return rpcAsync(name, runTrainer, [task, share, servers.get(serverOf(rank, options) ?? -1) ?? null]);
    }),
  );
}

function report(
  options: Options,
  trained: readonly Metrics[],
  served: readonly Metrics[],
  serverRanks: readonly number[],
  seconds: number,
): void {
  trained.forEach((metrics, rank) => console.log(`${metricsTable(`trainer=${rank}`, metrics)}\n`));
  console.log(`${metricsTable('all trainer', combined(trained))}\n`);
  served.forEach((metrics, i) => console.log(`${metricsTable(`server=${serverRanks[i]}`, metrics)}\n`));
  if (served.length > 0) console.log(`${metricsTable('all server', combined(served))}\n`);
  const content: Record<string, unknown> = {
    args: options,
    seconds,
    trainer: Object.fromEntries(trained.map((metrics, rank) => [rank, summarize(metrics)])),
    'all trainer': summarize(combined(trained)),
    server: Object.fromEntries(served.map((metrics, i) => [serverRanks[i], summarize(metrics)])),
    'all server': summarize(combined(served)),
  };
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, 'report.json'), `${JSON.stringify(content, null, 2)}\n`);
  writeFileSync(join(options.out, 'batches.svg'), chart(trained));
  console.log(`${seconds.toFixed(2)} s measured\n\n${options.out}/: report.json, batches.svg`);
}

/** How long the batches and their backward passes, hooks included, took. */
function chart(trained: readonly Metrics[]): string {
  const series = (name: string): Series[] =>
    trained.map((metrics, rank) => ({
      name: `trainer${rank}`,
      points: (metrics[name] ?? []).map((elapsed, i) => [i + 1, elapsed * 1000]),
    }));
  return chartSvg([
    { title: 'Batches', xLabel: 'batch', yLabel: 'ms', series: series('batch_level_metric,batch_all') },
    { title: 'Forward', xLabel: 'batch', yLabel: 'ms', series: series('forward_metric,forward_pass') },
    { title: 'Backward with hooks', xLabel: 'batch', yLabel: 'ms', series: series('backward_metric,backward') },
  ]);
}
