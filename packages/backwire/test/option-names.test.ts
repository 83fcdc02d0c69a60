/** @file Every options object of every package refuses an option that it does not have, and names the nearest that it has. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  allGather,
  barrier,
  createAgent,
  createRRef,
  distAutograd,
  initRpc,
  launch,
  nn,
  optim,
  processGroup,
  profiler,
  remote,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcName,
  rpcOneway,
  rpcStream,
  rpcSync,
  rrefs,
  tensor,
  zeros,
  type RpcAgent,
  type Tensor,
} from '../src/index.ts';

const { backward, context, DistributedOptimizer, RemoteModule } = distAutograd;
const { openTelemetry, profile, serveMetrics } = profiler;

const echo = rpcFunction('option-names/echo', (x: unknown) => x);
const make = rpcFunction('option-names/make', (): Tensor => zeros([1], { requiresGrad: true }));
const items = rpcFunction('option-names/items', function* (): Generator<number> {
  yield 1;
});
class Counter {
  static readonly [rpcName] = 'option-names/Counter';
  add(): number {
    return 1;
  }
}
rpcClass(Counter, { methods: ['add'] });
class Other {
  static readonly [rpcName] = 'option-names/Other';
  add(): number {
    return 1;
  }
}

let agents: RpcAgent[];
beforeAll(async () => {
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store: 'memory://option-names' });
  agents = await Promise.all([start(0), start(1)]);
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown({ graceful: false }))));

/** Options of an agent that could start. */
const whole = (more: object): never => ({ name: 'w', worldSize: 1, store: 'memory://never', ...more }) as never;
const o = (more: object): never => more as never;
const handle = (): ReturnType<typeof createRRef<Counter>> => createRRef(new Counter());

const cases: [string, () => unknown, string, string][] = [
  ['initRpc', () => initRpc(whole({ worldsize: 2 })), 'worldsize', 'worldSize'],
  ['createAgent', () => createAgent(whole({ timeoutMs: 2 })), 'timeoutMs', 'rpcTimeoutMs'],
  ['createAgent', () => createAgent(whole({ Rank: 2 })), 'Rank', 'rank'],
  ['limits', () => createAgent(whole({ limits: { maxMessageByte: 2 } })), 'maxMessageByte', 'maxMessageBytes'],
  ['liveness', () => createAgent(whole({ liveness: { ping: 2 } })), 'ping', 'pingMs'],
  ['security', () => createAgent(whole({ security: { mode: 'hmac', Secret: 'x' } })), 'Secret', 'secret'],
  ['faults', () => createAgent(whole({ faults: { delay: {} } })), 'delay', 'delayMs'],
  ['rpcSync', () => rpcSync('w1', echo, [1], o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['rpcSync', () => rpcSync('w1', echo, [1], o({ highWaterItems: 5 })), 'highWaterItems', 'timeoutMs'],
  ['rpcAsync', () => rpcAsync('w1', echo, [1], o({ Signal: undefined })), 'Signal', 'signal'],
  ['rpcOneway', () => rpcOneway('w1', echo, [1], o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['rpcStream', () => rpcStream('w1', items, [], o({ idleTimeout: 5 })), 'idleTimeout', 'idleTimeoutMs'],
  ['remote', () => remote('w1', Counter, [], o({ timeoutMS: 5 })), 'timeoutMS', 'timeoutMs'],
  ['toHere', () => handle().toHere(o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['localValue', () => handle().localValue(o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['confirmed', () => handle().confirmed(o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['typeName', () => handle().typeName(o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  [
    'a proxy',
    () =>
      handle()
        .rpcSync(o({ timeout: 5 }))
        .add(),
    'timeout',
    'timeoutMs',
  ],
  [
    'a proxy',
    () =>
      handle()
        .rpcAsync(o({ timeout: 5 }))
        .add(),
    'timeout',
    'timeoutMs',
  ],
  [
    'a proxy',
    () =>
      handle()
        .remote(o({ timeout: 5 }))
        .add(),
    'timeout',
    'timeoutMs',
  ],
  ['RRef.backward', () => createRRef(zeros([])).backward(1n, o({ retain: true })), 'retain', 'retainGraph'],
  ['barrier', () => barrier(o({ worker: ['w0'] })), 'worker', 'workers'],
  ['allGather', () => allGather(1, o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['processGroup', () => processGroup(o({ worker: ['w0'] })), 'worker', 'workers'],
  ['allReduce', () => processGroup().allReduce(zeros([1]), 'sum', o({ tag: {} })), 'tag', 'tags'],
  ['shutdown', () => agents[0]?.shutdown(o({ gracefull: false })), 'gracefull', 'graceful'],
  ['on', () => agents[0]?.on('error', () => undefined, o({ signals: 1 })), 'signals', 'signal'],
  ['rpcFunction', () => rpcFunction('option-names/x', () => 1, o({ scoped: true })), 'scoped', 'scope'],
  ['rpcClass', () => rpcClass(Other, o({ methods: ['add'], static: [] })), 'static', 'statics'],
  ['rrefs', () => rrefs(o({ creationSite: true })), 'creationSite', 'creationSites'],
  [
    'backward',
    () => context((id) => backward(id, [zeros([])], o({ retain_graph: true }))),
    'retain_graph',
    'retainGraph',
  ],
  [
    'DistributedOptimizer',
    () => DistributedOptimizer.create(optim.SGD, [remote('w1', make)], o({ learningRate: 0.1 })),
    'learningRate',
    'lr',
  ],
  [
    'step',
    async () => {
      const optimizer = await DistributedOptimizer.create(optim.SGD, [remote('w1', make)], { lr: 0.1 });
      await context((id) => optimizer.step(id, o({ timeout: 5 })));
    },
    'timeout',
    'timeoutMs',
  ],
  ['RemoteModule', () => RemoteModule.create('w1/cpu', nn.Linear, [1, 1], o({ timeout: 5 })), 'timeout', 'timeoutMs'],
  ['profile', () => profile(() => 1, o({ record_shapes: true })), 'record_shapes', 'recordShapes'],
  ['keyAverages', async () => (await profile(() => 1)).profile.keyAverages(o({ group: 'name' })), 'group', 'groupBy'],
  ['table', async () => (await profile(() => 1)).profile.keyAverages().table(o({ sort: 1 })), 'sort', 'sortBy'],
  ['serveMetrics', () => serveMetrics(o({ Port: 0 })), 'Port', 'port'],
  ['openTelemetry', () => openTelemetry(o({ tracerprovider: {} })), 'tracerprovider', 'tracerProvider'],
  ['launch', () => launch(o({ program: 'x.js', process: 2 })), 'process', 'processes'],
  ['tensor', () => tensor([1], o({ dType: 'int32' })), 'dType', 'dtype'],
];

describe('an option that does not exist', () => {
  it.each(cases)('is refused by %s, which names the one that was meant', async (_what, run, given, meant) => {
    const error = await (agents[0] as RpcAgent)
      .run(async () => run())
      .then(
        () => new Error('nothing was refused'),
        (reason: unknown) => reason as Error,
      );
    expect(error.message).toContain(`unknown option '${given}'`);
    // The nearest, or where nothing is near all that there are.
    expect(error.message).toMatch(new RegExp(`; (did you mean '${meant}'|it takes .*\\b${meant}\\b)`));
  });
});
