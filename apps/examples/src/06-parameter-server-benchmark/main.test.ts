/** @file The benchmark as real processes with a small model, and its parts. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type nn, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { sparseRpcFormatToTensor, sparseTensorToRpcFormat } from '@backwire/wire';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OptionError, parseFlags } from '../shared/flags.ts';
import { launched } from '../shared/launched.ts';
import { checkSizes, dataConfiguration, modelConfiguration } from './configurations.ts';
import { HOOKS, type HookState } from './hooks.ts';
import { combined, MetricsLogger, metricsTable, statistics } from './metrics.ts';
import { checkRoles, flags, nameOf, type Options, serverOf, sizes, trainersOf } from './options.ts';
import { AverageBatchParameterServer, AverageParameterServer, type SparseParts } from './server.ts';
import { dummyData } from './trainer.ts';

const main = join(import.meta.dirname, 'main.ts');
const out = mkdtempSync(join(tmpdir(), 'backwire-ps-benchmark-'));
const models = join(out, 'models.json');
const options = (...argv: string[]): Options => parseFlags(argv, flags) as Options;

beforeAll(() => {
  const sizes = { num_embeddings: 100, embedding_dim: 100, dense_input_size: 100, dense_output_size: 100 };
  const configurations = { ...sizes, dense_layers_count: 2, sparse: true };
  writeFileSync(models, JSON.stringify({ Small: { model_class: 'DummyModel', configurations } }));
});
afterAll(() => rmSync(out, { recursive: true, force: true }));

describe('roles', () => {
  it('are trainers, then servers, then the master, each trainer with its server', () => {
    const given = options('--ntrainer', '4', '--nserver', '2', '--ncudatrainer', '2', '--ncudaserver', '1');
    const { world } = sizes(given);
    expect(Array.from({ length: world }, (_, rank) => nameOf(rank, given))).toEqual(
      'trainer0 trainer1 trainer2 trainer3 trainer4 trainer5 server6 server7 server8 master'.split(' '),
    );
    expect([0, 1, 2, 3, 4, 5].map((trainer) => serverOf(trainer, given))).toEqual([6, 6, 7, 7, 8, 8]);
    expect([6, 7, 8].map((server) => trainersOf(server, given))).toEqual([2, 2, 2]);
    expect(() => checkRoles(given)).not.toThrow();
  });

  it.each([
    [['--ntrainer', '3', '--nserver', '2'], '--ntrainer has to be a multiple of --nserver, got 3 and 2'],
    [['--ntrainer', '1', '--ncudatrainer', '1'], 'together need --nserver and --ncudaserver'],
    [['--nserver', '0', '--ddp-hook', 'rpc_hook'], '--ddp-hook rpc_hook needs a server'],
    [['--ntrainer', '0', '--nserver', '0'], 'somebody has to train'],
  ])('refuses %j', (argv, message) => {
    expect(() => checkRoles(options(...argv))).toThrow(message);
  });
});

describe('configuration files', () => {
  it('have the names and numbers of the original', () => {
    expect(dataConfiguration(options())).toEqual({
      max_val: 100,
      sample_count: 100,
      sample_length: 100,
      sparsity_percentage: 20,
    });
    expect(dataConfiguration(options('--data', 'DummyData2')).sparsity_percentage).toBe(80);
    expect(modelConfiguration(options('--model', 'DummyModelSparse'))).toEqual({
      num_embeddings: 1024,
      embedding_dim: 1024,
      dense_input_size: 1024,
      dense_output_size: 1024,
      dense_layers_count: 8,
      sparse: true,
    });
  });

  it('say what is wrong with them', () => {
    expect(() => dataConfiguration(options('--data', 'None'))).toThrow(OptionError);
    expect(() => dataConfiguration(options('--data-config-path', '/none'))).toThrow('--data-config-path /none: ENOENT');
    const model = { ...modelConfiguration(options()), num_embeddings: 10 };
    expect(() => checkSizes(dataConfiguration(options()), model)).toThrow('num_embeddings 10 is less than max_val 100');
  });

  it('make data that uses its share of the words only', async () => {
    const batches = dummyData(dataConfiguration(options('--data', 'DummyData2')), 30, 5);
    expect(batches.map(([x, y]) => [x.shape, y.shape])).toEqual([
      ...Array<unknown>(3).fill([[30, 100], [30]]),
      [[10, 100], [10]],
    ]);
    const words = new Set((await Promise.all(batches.map(([x]) => x.data('int32')))).flatMap((part) => [...part]));
    expect(words.size).toBe(20);
  });
});

describe('metrics', () => {
  it('are measured by type and key, and each once', () => {
    const logger = new MetricsLogger();
    logger.recordStart('a', '0,1', 'x');
    expect(() => logger.recordStart('a', '0,1', 'x')).toThrow('has already been started');
    logger.recordEnd('a', '0,1');
    expect(() => logger.recordEnd('a', '0,1')).toThrow('has not been started');
    expect(Object.keys(logger.processedMetrics())).toEqual(['a,x']);
    logger.clear();
    expect(logger.processedMetrics()).toEqual({});
  });

  it('are summed up as by the statistics module of Python', () => {
    expect(statistics([2, 4, 9])).toEqual({ count: 3, min: 2, max: 9, mean: 5, variance: 13, stdev: Math.sqrt(13) });
    expect(statistics([2])).toMatchObject({ mean: 2, variance: null, stdev: null });
    expect(combined([{ a: [1], b: [2] }, { a: [3] }])).toEqual({ a: [1, 3], b: [2] });
    expect(metricsTable('trainer=0', { b: [1, 1], a: [0.5] })).toMatch(
      /^metrics for trainer=0\nname +min +max +mean +variance +stdev\n─+\na +0\.5000 +0\.5000 +0\.5000 +- +-\nb /,
    );
  });
});

describe.each([AverageParameterServer, AverageBatchParameterServer])('%o', (Server) => {
  it('answers all trainers with the mean when the last one has sent', async () => {
    const server = new Server(3);
    const sent = [3, 6, 12].map((value) => server.averageGradient(0, 1, tensor([value, 0])));
    const answers = (await Promise.all(sent)) as Tensor[];
    expect(answers.map((mean) => mean.toArray())).toEqual([[7, 0], [7, 0], [7, 0]]); // prettier-ignore
    expect(Object.keys(server.getMetrics()).sort()).toEqual([
      'method_metric,average computation',
      'parameter_server_batch_metric,param_index_batch',
      'parameter_server_straggler_metric,param_index_straggler',
    ]);
    server.resetState();
    expect(server.getMetrics()).toEqual({});
  });

  it('averages sparse gradients of different rows', async () => {
    const server = new Server(2);
    const row = (at: number): SparseParts =>
      sparseTensorToRpcFormat(sparseCooTensor(tensor([[at]], { dtype: 'int64' }), tensor([[2, 4]]), [3, 2]));
    const [mean] = await Promise.all([server.averageGradient(0, 0, row(0)), server.averageGradient(0, 0, row(2))]);
    expect(sparseRpcFormatToTensor(mean as SparseParts).toDense().toArray()).toEqual([[1, 2], [0, 0], [1, 2]]); // prettier-ignore
  });

  it('fails those that wait when the others have gone on, and refuses the late', async () => {
    const server = new Server(2);
    const early = server.averageGradient(0, 0, tensor([1]));
    const both = [1, 3].map((value) => server.averageGradient(1, 0, tensor([value])));
    await expect(early).rejects.toThrow('the gradient was not averaged: batch 1 has begun');
    expect(((await both[0]) as Tensor).item()).toBe(2);
    expect(() => server.averageGradient(0, 0, tensor([1]))).toThrow('a gradient of batch 0 came after one of batch 1');
  });
});

describe('hooks', () => {
  const sparse = (): Tensor => sparseCooTensor(tensor([[2, 2, 0]], { dtype: 'int64' }), tensor([1, 3, 5]), [4]);
  /** A bucket, a group and a server that write down what is done, in order. */
  function rig(gradient: Tensor, answer: (sent: Tensor | SparseParts) => Promise<Tensor | SparseParts>) {
    const log: string[] = [];
    const note = <T extends object, K extends keyof T & string>(on: T, method: K): void => {
      const original = on[method] as unknown as (...args: unknown[]) => unknown;
      Object.defineProperty(on, method, {
        value: (...args: unknown[]) => (log.push(method), original.apply(on, args)),
      });
    };
    const logger = new MetricsLogger();
    note(logger, 'recordStart');
    note(logger, 'recordEnd');
    note(gradient, 'coalesce');
    note(gradient, 'toDense');
    const send = (sent: Tensor | SparseParts) => (log.push('send'), answer(sent));
    const state: HookState = {
      group: { rank: 0, size: 2, allReduce: send, broadcast: send } as unknown as HookState['group'],
      server: {
        rpcAsync: () => ({
          averageGradient: (_batch: number, _index: number, sent: Tensor | SparseParts) => send(sent),
        }),
      } as unknown as HookState['server'],
      logger,
      backend: 'gloo',
      batch: 3,
    };
    const bucket = {
      index: 1,
      isLast: true,
      buffer: () => gradient,
      gradients: () => [],
      parameters: () => [],
    } as unknown as nn.GradBucket;
    const run = (hook: string): Promise<Tensor> => (HOOKS[hook] as NonNullable<(typeof HOOKS)[string]>)(state, bucket);
    return { log, logger, run };
  }
  const watched = (log: string[], parts: SparseParts): SparseParts =>
    new Proxy(parts, {
      get: (of, key, self) => (
        key === '0' || key === Symbol.iterator ? log.push('convert') : 0,
        Reflect.get(of, key, self) as unknown
      ),
    });

  it('measure the call to the server, and not the conversions before and after it', async () => {
    const { log, logger, run } = rig(sparse(), async (sent) => watched(log, sent as SparseParts));
    expect((await run('rpc_hook')).toDense().toArray()).toEqual([5, 0, 4, 0]);
    expect([...new Set(log)]).toEqual(['coalesce', 'recordStart', 'send', 'recordEnd', 'convert']);
    expect(Object.keys(logger.processedMetrics())).toEqual(['hook_future_metric,rpc_sparse']);
  });

  it('measure the reduction, and not what makes a gradient dense', async () => {
    const { log, run } = rig(sparse(), async (sent) => sent);
    await run('hybrid_hook');
    expect(log).toEqual(['toDense', 'recordStart', 'send', 'recordEnd']);
  });

  it.each(['rpc_hook', 'allreduce_hook', 'hybrid_hook', 'sparse_rpc_hook'])(
    'end their measurement when they fail: %s',
    async (hook) => {
      const { log, logger, run } = rig(sparse(), () => Promise.reject(new RangeError('gone')));
      await expect(run(hook)).rejects.toThrow('gone');
      expect(log.at(-1)).toBe('recordEnd');
      expect(Object.values(logger.processedMetrics())).toEqual([[expect.any(Number)]]);
    },
  );
});

it(
  'runs: sparse gradients to the server, dense ones all-reduced; tables and report',
  { timeout: 120_000 },
  async () => {
    const small = ['--model-config-path', models, '--model', 'Small', '--epochs', '2', '--out', out];
    const { exitCode, output, report } = await launched(main, {
      processes: 4,
      args: [...small, '--batch_size', '25', '--ddp-hook', 'sparse_rpc_hook'],
    });
    expect(report).toBeUndefined();
    expect(exitCode).toBe(0);
    const titles = ['trainer=0', 'trainer=1', 'all trainer', 'server=2', 'all server'];
    for (const title of titles) expect(output).toContain(`metrics for ${title}\n`);
    const written = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8')) as Record<
      string,
      Record<string, { count: number; mean: number }>
    >;
    // 4 batches over 2 trainers, 2 epochs, and only the second pass counts.
    expect(Object.entries(written['all trainer'] ?? {}).map(([name, { count }]) => [name, count])).toEqual([
      ['backward_metric,backward', 8],
      ['batch_level_metric,batch_all', 8],
      ['forward_metric,forward_pass', 8],
      ['hook_future_metric,gloo_dense_allreduce', 8],
      ['hook_future_metric,rpc_sparse', 8],
    ]);
    expect(written['all server']?.['parameter_server_batch_metric,param_index_batch']?.count).toBe(4);
    expect(readFileSync(join(out, 'batches.svg'), 'utf8')).toMatch(/^<svg[\s\S]*Backward with hooks[\s\S]*<\/svg>\s*$/);
  },
);
