/** @file Valid calls of every public function of the distributed packages: what the test of bad arguments starts from. */
import {
  add,
  allGather,
  barrier,
  createAgent,
  createRRef,
  currentAgent,
  distAutograd,
  getWorkerInfo,
  isRRef,
  mul,
  newIdempotencyKey,
  ones,
  processGroup,
  registerErrorType,
  remote,
  remoteClass,
  remoteFunction,
  RemoteError,
  RpcError,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcName,
  rpcOneway,
  rpcStream,
  rpcSync,
  rrefs,
  setRpcTimeoutMs,
  tensor,
  waitAll,
  WorkerInfo,
  type nn,
  type RpcAgent,
} from '../../src/index.ts';

type Run = (...args: never[]) => unknown;
/** A function, and what it may be called with: new arguments every time. */
export interface Subject {
  readonly name: string;
  readonly run: (...args: unknown[]) => unknown;
  readonly args: () => unknown[];
}

const subject = (name: string, run: Run, args: () => unknown[]): Subject => ({
  name,
  run: run as Subject['run'],
  args,
});

const echo = rpcFunction('bad-arguments/echo', (x: unknown) => x);
const make = rpcFunction('bad-arguments/make', () => ones([2]));
const count = rpcFunction('bad-arguments/count', function* () {
  yield 1;
});
rpcClass(
  class Counter {
    static readonly [rpcName] = 'bad-arguments/Counter';
  },
  { methods: [] },
);

let made = 0;
const newName = (): string => `bad-arguments/${made++}`;
const signal = (): AbortSignal => new AbortController().signal;
const quiet = (): void => undefined;
const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };

/** Options of calls, those of which each run wants another key included. */
const keyless = (): object => ({ timeoutMs: 2_000, signal: signal(), ordered: true, agent: currentAgent() });
const options = (): object => ({ ...keyless(), idempotencyKey: newIdempotencyKey() });
const meeting = (): object => ({ workers: ['w0'], timeoutMs: 500, signal: signal(), agent: currentAgent() });

const CALLS: readonly Subject[] = [
  subject('rpcSync', rpcSync, () => ['w1', echo, [1], options()]),
  subject('rpcAsync', rpcAsync, () => ['w1', echo, [1], options()]),
  subject('rpcOneway', rpcOneway, () => ['w1', echo, [1], options()]),
  subject(
    'rpcStream',
    async (...args: Parameters<typeof rpcStream>) => {
      for await (const item of rpcStream(...args)) return item;
      return undefined;
    },
    () => ['w1', count, [], { ...keyless(), idleTimeoutMs: 1_000, highWaterItems: 4 }],
  ),
  subject('waitAll', waitAll, () => [() => 1]),
  subject('allGather', allGather, () => [1, meeting()]),
  subject('barrier', barrier, () => [meeting()]),
  subject('getWorkerInfo', getWorkerInfo, () => ['w1']),
  subject(
    'setRpcTimeoutMs',
    (ms: number) => {
      setRpcTimeoutMs(ms);
      setRpcTimeoutMs(5_000);
    },
    () => [60_000],
  ),
  subject('processGroup', processGroup, () => [{ workers: ['w0'], timeoutMs: 1_000, agent: currentAgent() }]),
  subject(
    'allReduce',
    (...args: Parameters<nn.ProcessGroup['allReduce']>) => processGroup({ workers: ['w0'] }).allReduce(...args),
    () => [ones([2]), 'mean', { timeoutMs: 500, signal: signal() }],
  ),
  subject(
    'broadcast',
    (...args: Parameters<nn.ProcessGroup['broadcast']>) => processGroup({ workers: ['w0'] }).broadcast(...args),
    () => [ones([2]), 0, { timeoutMs: 500, signal: signal() }],
  ),
];

const DEFINITIONS: readonly Subject[] = [
  subject('rpcFunction', rpcFunction, () => [newName(), () => 1, { scope: true }]),
  subject('rpcClass', rpcClass, () => [
    class {
      static readonly [rpcName] = newName();
      static there(): void {
        // Only its name matters.
      }
      run(): void {
        // Likewise.
      }
    },
    { methods: ['run'], statics: ['there'], scope: true },
  ]),
  subject('remoteFunction', remoteFunction, () => ['bad-arguments/echo']),
  subject('remoteClass', remoteClass, () => ['bad-arguments/Counter']),
  subject(
    'registerErrorType',
    (ctor: never) => registerErrorType(ctor),
    () => [Object.defineProperty(class extends Error {}, 'name', { value: newName() })],
  ),
  subject(
    'new WorkerInfo',
    (name: string, id: number) => new WorkerInfo(name, id),
    () => ['w', 1],
  ),
  subject(
    'new RpcError',
    (text: string) => new RpcError('cancelled', text),
    () => ['text'],
  ),
  subject(
    'new RemoteError',
    (text: string) => new RemoteError(text, { remoteName: 'Error', remoteStack: undefined }),
    () => ['text'],
  ),
  subject('rpcInfo', rpcInfo, () => [new Error('x')]),
];

const alone = (): Record<string, unknown> => ({
  name: 'alone',
  rank: 0,
  worldSize: 1,
  membership: 'static',
  store: `memory://${newName()}`,
  group: 'group',
  rpcTimeoutMs: 1_000,
  initTimeoutMs: 1_000,
  transports: ['memory'],
  channels: ['inline'],
  bind: '127.0.0.1',
  advertise: '127.0.0.1',
  deviceMaps: {},
  limits: { maxDepth: 64 },
  liveness: { pingMs: 2_000 },
  maxConcurrentCalls: 8,
  extensions: [],
  serve: [],
  builtins: true,
  callSites: true,
  logger,
  faults: { failFirst: {}, delayMs: {} },
});

/** Starts an agent alone in its group, and ends it. */
async function started(given: object, use: (agent: RpcAgent) => unknown = quiet): Promise<void> {
  const agent = await createAgent(given as never);
  try {
    await use(agent);
  } finally {
    await agent.shutdown({ graceful: false });
  }
}
const part = (name: string, valid: () => object): Subject =>
  subject(
    `createAgent: ${name}`,
    (value: unknown) => started({ ...alone(), [name]: value }),
    () => [valid()],
  );

const AGENTS: readonly Subject[] = [
  subject('createAgent', started, () => [alone()]),
  part('limits', () => ({ maxDepth: 64, maxMessageBytes: 2 ** 20, maxContexts: 10 })),
  part('liveness', () => ({ pingMs: 2_000, deadMs: 15_000, leaseMs: 10_000 })),
  part('faults', () => ({ failFirst: { PYTHON_CALL: 1 }, delayMs: { PYTHON_CALL: 1 } })),
  subject(
    'run',
    (fn: never) => currentAgent().run(fn),
    () => [() => 1],
  ),
  subject(
    'on',
    (...args: Parameters<RpcAgent['on']>) => currentAgent().on(...args)(),
    () => ['error', quiet, { signal: signal() }],
  ),
  subject(
    'register',
    (definition: never) => currentAgent().register(definition)(),
    () => [echo],
  ),
  subject(
    'shutdown',
    (given: never) => started(alone(), (agent) => agent.shutdown(given)),
    () => [{ graceful: true, timeoutMs: 1_000, onLeak: 'warn' }],
  ),
];

/** Of a value elsewhere, and of one that is here. */
const REFERENCES: readonly Subject[] = (['elsewhere', 'here'] as const).flatMap((where) => {
  type Method = 'confirmed' | 'typeName' | 'toHere' | 'localValue' | 'onOwnerDied' | 'backward';
  const handle = () => (where === 'here' ? createRRef(ones([2])) : remote('w1', make));
  const method = (name: Method, args: () => unknown[]): Subject =>
    subject(
      `${name} of a reference to what is ${where}`,
      async (...given: never[]) => {
        const rref = handle();
        try {
          return await (rref[name] as Run)(...given);
        } finally {
          rref.dispose();
        }
      },
      args,
    );
  const call = (name: 'rpcSync' | 'rpcAsync' | 'remote'): Subject =>
    subject(
      `${name} of a reference to what is ${where}`,
      async (given: never, ...args: [never, never]) => {
        const rref = handle();
        try {
          const result: unknown = await rref[name](given).add(...args);
          if (!isRRef(result)) return;
          await result.confirmed();
          result.dispose();
        } finally {
          rref.dispose();
        }
      },
      () => [name === 'remote' ? keyless() : options(), 1, { alpha: 2 }],
    );
  return [
    method('confirmed', () => [keyless()]),
    method('typeName', () => [keyless()]),
    method('toHere', () => [keyless()]),
    ...(where === 'here' ? [method('localValue', () => [keyless()])] : []),
    method('onOwnerDied', () => [quiet]),
    call('rpcSync'),
    call('rpcAsync'),
    call('remote'),
    subject(
      `backward of a reference to what is ${where}`,
      (given: (id: bigint) => unknown, more: never) =>
        distAutograd.context(async (own) => {
          const x = tensor([2], { requiresGrad: true });
          const rref = where === 'here' ? createRRef(x.mul(3)) : remote('w1', mul, [x, 3]);
          await rref.confirmed();
          await rref.backward((given === ID ? own : given) as never, more);
          rref.dispose();
        }),
      () => [ID, { timeoutMs: 2_000, retainGraph: true, signal: signal() }],
    ),
  ];
});

/** Stands for the id of the context in force. */
const ID = (id: bigint): bigint => id;

export const SUBJECTS: readonly Subject[] = [
  ...CALLS,
  ...DEFINITIONS,
  ...AGENTS,
  subject('rrefs', rrefs, () => [{ creationSites: true }]),
  subject(
    'remote',
    async (...args: Parameters<typeof remote>) => {
      const rref = remote(...args);
      try {
        await rref.confirmed();
      } finally {
        rref.dispose();
      }
    },
    () => ['w1', add, [ones([2]), 1], keyless()],
  ),
  subject(
    'createRRef',
    (value: unknown) => createRRef(value).dispose(),
    () => [1],
  ),
  subject('isRRef', isRRef, () => [1]),
  ...REFERENCES,
];
export { ID, keyless, options, signal, subject };
