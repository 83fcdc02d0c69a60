/** @file The flags, which are those of the original benchmark, and who is who for them. */
import { count, OptionError, type OptionsOf, text } from '../shared/flags.ts';

const only = (help: string, ...choices: readonly string[]) => text('NAME', help, choices[0] ?? '', choices);

export const flags = {
  'master-addr': text('HOST', 'where the processes meet', '127.0.0.1'),
  'master-port': count('its port; 0 = any free one', 0, { least: 0, most: 65_535 }),
  trainer: only('the trainer', 'DdpTrainer'),
  ntrainer: count('trainers', 2, { least: 0, most: 64 }),
  ncudatrainer: count('more trainers, with servers of their own', 0, { least: 0, most: 64 }),
  filestore: text('PATH', 'accepted and not needed: the trainers meet where all processes do', ''),
  server: only('how the servers add up', 'AverageParameterServer', 'AverageBatchParameterServer'),
  nserver: count('servers', 1, { least: 0, most: 64 }),
  ncudaserver: count('servers of the cuda trainers', 0, { least: 0, most: 64 }),
  'rpc-timeout': count('seconds a call may take', 300),
  backend: only('names the all-reduce in the metrics; it is always that of Backwire', 'gloo', 'nccl', 'multi'),
  epochs: count('passes over the data, once to warm up and once more to measure', 3, { most: 10_000 }),
  'batch-size': count('samples in a batch', 10, { most: 100_000 }),
  data: text('NAME', 'a name in the data configurations', 'DummyData'),
  model: text('NAME', 'a name in the model configurations', 'DummyModel'),
  'data-config-path': text('FILE', 'the data configurations', 'configurations/data_configurations.json'),
  'model-config-path': text('FILE', 'the model configurations', 'configurations/model_configurations.json'),
  'server-config-path': text('FILE', 'the server configurations', 'configurations/server_configurations.json'),
  'trainer-config-path': text('FILE', 'the trainer configurations', 'configurations/trainer_configurations.json'),
  'torch-seed': count('of weights and data', 0, { least: 0 }),
  'cuda-seed': count('accepted and not needed', 0, { least: 0 }),
  'preprocess-data': only('what is done with the data first', 'preprocess_dummy_data'),
  'create-criterion': only('the loss', 'cel'),
  'create-ddp-model': only('how the model is made', 'basic_ddp_model'),
  'hook-state': only('the state of the hook', 'BasicHookState'),
  'ddp-hook': only('who averages gradients', 'allreduce_hook', 'hybrid_hook', 'rpc_hook', 'sparse_rpc_hook'),
  'iteration-step': only('one step of training', 'basic_iteration_step'),
  out: text('DIR', 'where report and chart go', 'out'),
} as const;
export type Options = OptionsOf<typeof flags>;

/** How many processes there are, and the number of trainers and servers among them. */
export function sizes(options: Options): { trainers: number; servers: number; world: number } {
  const trainers = options.ntrainer + options.ncudatrainer;
  const servers = options.nserver + options.ncudaserver;
  return { trainers, servers, world: trainers + servers + 1 };
}

/** Trainers first, then servers, the master last. */
export function nameOf(rank: number, options: Options): string {
  const { trainers, servers } = sizes(options);
  if (rank < trainers) return `trainer${rank}`;
  return rank < trainers + servers ? `server${rank}` : 'master';
}

/** The rank of the server of a trainer; undefined where it has none. */
export function serverOf(trainer: number, options: Options): number | undefined {
  const { ntrainer, nserver, ncudatrainer, ncudaserver } = options;
  const first = ntrainer + ncudatrainer;
  if (trainer < ntrainer) return nserver === 0 ? undefined : first + Math.floor(trainer / (ntrainer / nserver));
  if (ncudaserver === 0) return undefined;
  return first + nserver + Math.floor((trainer - ntrainer) / (ncudatrainer / ncudaserver));
}

/** How many trainers send their gradients to a server. */
export function trainersOf(server: number, options: Options): number {
  const { ntrainer, nserver, ncudatrainer, ncudaserver } = options;
  return server < ntrainer + ncudatrainer + nserver ? ntrainer / nserver : ncudatrainer / ncudaserver;
}

/** The rules of the original. @throws OptionError */
export function checkRoles(options: Options): void {
  const { ntrainer, ncudatrainer, nserver, ncudaserver } = options;
  if (ntrainer + ncudatrainer === 0) throw new OptionError('--ntrainer 0: somebody has to train');
  if (ntrainer > 0 && ncudatrainer > 0 && (nserver === 0 || ncudaserver === 0))
    throw new OptionError('--ntrainer and --ncudatrainer together need --nserver and --ncudaserver');
  whole('ntrainer', ntrainer, 'nserver', nserver);
  whole('ncudatrainer', ncudatrainer, 'ncudaserver', ncudaserver);
  const needsServers = options['ddp-hook'] === 'rpc_hook' || options['ddp-hook'] === 'sparse_rpc_hook';
  const without = Array.from({ length: ntrainer + ncudatrainer }, (_, i) => serverOf(i, options)).includes(undefined);
  if (needsServers && without) throw new OptionError(`--ddp-hook ${options['ddp-hook']} needs a server: --nserver`);
}

function whole(trainers: string, count: number, servers: string, among: number): void {
  if (among === 0) return;
  if (count === 0 || count % among !== 0)
    throw new OptionError(`--${trainers} has to be a multiple of --${servers}, got ${count} and ${among}`);
}
