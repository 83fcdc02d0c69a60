/** @file Valid calls of distributed autograd and of the profiler, as in calls.ts. */
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  currentAgent,
  distAutograd,
  nn,
  ones,
  optim,
  processGroup,
  profiler,
  tensor,
  type RpcAgent,
  type Tensor,
} from '../../src/index.ts';
import { ID, keyless, options, signal, subject, type Subject } from './calls.ts';

const { context, DistributedOptimizer, RemoteModule } = distAutograd;

const remoteLinear = () => RemoteModule.create('w1', nn.Linear, [2, 1]);

/** Runs `use` with a module on another worker. */
async function withModule<T>(use: (module: Awaited<ReturnType<typeof remoteLinear>>) => Promise<T> | T): Promise<T> {
  const module = await remoteLinear();
  try {
    return await use(module);
  } finally {
    module.getModuleRRef().dispose();
  }
}

/** Calls a method of an optimizer after a backward pass; `ID` stands for the id of its context. */
const stepping = (method: 'step' | 'gradNorm' | 'clipGradNorm_', args: () => unknown[]): Subject =>
  subject(
    `${method} of a DistributedOptimizer`,
    (id: unknown, ...rest: never[]) =>
      withModule(async (module) => {
        const optimizer = await DistributedOptimizer.create(optim.SGD, await module.remoteParameters(), { lr: 0.1 });
        try {
          return await context(async (own) => {
            await distAutograd.backward(own, [(await module.forward(ones([1, 2]))).sum()]);
            return (optimizer[method] as (...all: unknown[]) => Promise<unknown>)(id === ID ? own : id, ...rest);
          });
        } finally {
          optimizer.dispose();
        }
      }),
    args,
  );

const AUTOGRAD: readonly Subject[] = [
  subject('context', context, () => [() => Promise.resolve(1)]),
  subject(
    'backward',
    (id: unknown, roots: unknown, more: never) =>
      context((own) => {
        const loss = tensor([2], { requiresGrad: true }).mul(2).sum();
        return distAutograd.backward((id === ID ? own : id) as never, (roots === ID ? [loss] : roots) as never, more);
      }),
    () => [ID, ID, { timeoutMs: 2_000, retainGraph: true, mode: 'smart', signal: signal() }],
  ),
  subject(
    'getGradients',
    (id: unknown) =>
      context((own) => Promise.resolve(distAutograd.getGradients((id === ID ? own : id) as never)[Symbol.dispose]())),
    () => [ID],
  ),
  subject(
    'get of gradients',
    (leaf: never) => context((own) => Promise.resolve(distAutograd.getGradients(own).get(leaf))),
    () => [ones([2])],
  ),
  subject(
    'DistributedOptimizer.create',
    (Class: never, params: unknown, more: never) =>
      withModule(async (module) => {
        const own = params === ID ? await module.remoteParameters() : params;
        (await DistributedOptimizer.create(Class, own as never, more)).dispose();
      }),
    () => [optim.SGD, ID, { lr: 0.1, momentum: 0.5 }],
  ),
  stepping('step', () => [ID, options()]),
  stepping('gradNorm', () => [ID, { ...options(), normType: 2, errorIfNonfinite: true }]),
  stepping('clipGradNorm_', () => [ID, 1, { ...options(), normType: 2, errorIfNonfinite: true }]),
  subject(
    'RemoteModule.create',
    async (...args: [never, never, never, never]) => {
      (await RemoteModule.create(...args)).getModuleRRef().dispose();
    },
    () => ['w1/cpu', nn.Linear, [2, 1], keyless()],
  ),
  subject(
    'RemoteModule.fromModuleRRef',
    (device: string, rref: unknown, more: never) =>
      withModule((module) =>
        RemoteModule.fromModuleRRef(device, (rref === ID ? module.getModuleRRef() : rref) as never, more),
      ),
    () => ['w1/cpu', ID, keyless()],
  ),
  subject(
    'forward of a RemoteModule',
    (x: never) => withModule((module) => module.forward(x)),
    () => [ones([1, 2])],
  ),
  subject(
    'forwardWith of a RemoteModule',
    (more: never, x: never) => withModule((module) => module.forwardWith(more, x)),
    () => [options(), ones([1, 2])],
  ),
  subject(
    'remoteParameters of a RemoteModule',
    (recurse: never) => withModule((module) => module.remoteParameters(recurse)),
    () => [true],
  ),
  subject(
    'train of a RemoteModule',
    (mode: never) => withModule((module) => module.train(mode)),
    () => [true],
  ),
];

const linear = (): nn.DistributedDataParallel<nn.Linear> =>
  new nn.DistributedDataParallel(new nn.Linear(2, 1), { group: processGroup({ workers: ['w0'] }) });
const pass = (model: nn.DistributedDataParallel<nn.Linear>): Promise<void> =>
  model.backward(model.forward(ones([1, 2])).sum());

const REPLICAS: readonly Subject[] = [
  subject(
    'new nn.DistributedDataParallel',
    (module: never, more: never) => pass(new nn.DistributedDataParallel<nn.Linear>(module, more)),
    () => [new nn.Linear(2, 1), { group: processGroup({ workers: ['w0'] }), bucketBytes: 1_000 }],
  ),
  subject(
    'synchronize of replicas',
    (from: never) => linear().synchronize(from),
    () => [0],
  ),
  subject(
    'backward of replicas',
    (loss: never) => linear().backward(loss),
    () => [tensor([2], { requiresGrad: true }).sum()],
  ),
  subject(
    'registerCommHook of replicas',
    (state: unknown, hook: never) => {
      const model = linear();
      model.registerCommHook(state, hook);
      return pass(model);
    },
    () => [null, (_: unknown, bucket: { buffer(): Tensor }) => bucket.buffer()],
  ),
  subject(
    'what a hook of replicas answers',
    (answer: never) => {
      const model = linear();
      model.registerCommHook(null, () => answer);
      return pass(model);
    },
    () => [ones([3])],
  ),
  subject(
    'join of replicas',
    (fn: never) => linear().join(fn),
    () => [() => Promise.resolve(1)],
  ),
];

const file = join(tmpdir(), `backwire-bad-arguments-${process.pid}.json`);
const profiled = async (): Promise<profiler.Profile> => (await profiler.profile(() => ones([2]).add(1))).profile;

const PROFILER: readonly Subject[] = [
  subject('profile', profiler.profile, () => [() => 1, { recordShapes: true, profileMemory: true }]),
  subject('recordFunction', profiler.recordFunction, () => ['label', () => 1]),
  subject(
    'endWith',
    (promise: never) => profiler.profile(() => profiler.recordFunction('label', (label) => label.endWith(promise))),
    () => [Promise.resolve(1)],
  ),
  subject(
    'keyAverages',
    async (more: never) => (await profiled()).keyAverages(more),
    () => [{ groupBy: 'name' }],
  ),
  subject(
    'table',
    async (more: never) => (await profiled()).keyAverages().table(more),
    () => [{ sortBy: 'self', limit: 3 }],
  ),
  subject(
    'writeChromeTrace',
    async (path: unknown, trace: unknown) => {
      try {
        // A text is a path: only this one is written to.
        if (typeof path === 'string' && path !== '' && path !== file) return;
        const own = trace === ID ? (await profiled()).toChromeTrace() : trace;
        await profiler.writeChromeTrace(path as string, own as never);
      } finally {
        rmSync(file, { force: true });
      }
    },
    () => [file, ID],
  ),
  subject('mergeChromeTraces', profiler.mergeChromeTraces, () => [[{ traceEvents: [] }]]),
  subject('measureCalls', profiler.measureCalls, () => [currentAgent()]),
  subject('metricsText', profiler.metricsText, () => [currentAgent()]),
  subject(
    'serveMetrics',
    async (more: never) => (await profiler.serveMetrics(more)).close(),
    () => [{ port: 0, host: '127.0.0.1', agent: currentAgent() satisfies RpcAgent }],
  ),
  subject('openTelemetry', profiler.openTelemetry, () => [{ tracerProvider: undefined, meterProvider: undefined }]),
  subject(
    'new ServerProfiler',
    (more: never) => new profiler.ServerProfiler(more),
    () => [{ recordShapes: true, profileMemory: true }],
  ),
];

export const TRAINING: readonly Subject[] = [...AUTOGRAD, ...REPLICAS, ...PROFILER];
