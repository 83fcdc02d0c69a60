/** @file A group of three that does everything, so that every type of message is sent: calls, references, gradients, profiles, errors, control. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  add,
  createAgent,
  distAutograd,
  getWorkerInfo,
  matmul,
  ones,
  profiler,
  registerValueType,
  remote,
  remoteFunction,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcName,
  rpcOneway,
  rpcStream,
  rpcSync,
  tensor,
  type RpcAgent,
  type RpcOptions,
  type RRef,
  type Tensor,
} from '../src/index.ts';

const { backward, context, getGradients } = distAutograd;

class Point {
  readonly x: number;
  constructor(x: number) {
    this.x = x;
  }
}
registerValueType({ name: 'live/Point', match: Point, encode: ({ x }) => x, decode: (x) => new Point(x as number) });

const echo = rpcFunction('live/echo', (x: unknown) => x);
const fail = rpcFunction('live/fail', (text: string): Promise<Tensor> => {
  throw new RangeError(text, { cause: new TypeError('deeper') });
});
const slow = rpcFunction('live/slow', async (ms: number) => {
  await sleep(ms);
  return ones([2]);
});
const items = rpcFunction('live/items', function* (count: number) {
  for (let i = 0; i < count; i++) yield { i, t: tensor([i]) };
});
const square = rpcFunction('live/square', (x: Tensor) => x.mul(x));
const through = rpcFunction('live/through', (to: string, x: Tensor) =>
  rpcSync(to, remoteFunction<(x: Tensor) => Tensor>('live/square'), [x.mul(2)]),
);
const read = rpcFunction('live/read', async (rref: RRef<Tensor>) => (await rref.toHere()).sum().item());
const passOn = rpcFunction('live/pass-on', (rref: RRef<Tensor>, to: string) =>
  rpcSync(to, remoteFunction<(rref: RRef<Tensor>) => number>('live/read'), [rref]),
);
class Counter {
  static readonly [rpcName] = 'live/Counter';
  private count = 0;
  increase(by: number): number {
    if (by < 0) throw new RangeError('only up');
    return (this.count += by);
  }
}
rpcClass(Counter, { methods: ['increase'] });

let groups = 0;

/** Three workers; the third may leave alone. */
export function startGroup(options: Partial<RpcOptions> = {}): Promise<RpcAgent[]> {
  const store = `memory://live-${process.pid}-${groups++}`;
  return Promise.all(
    [0, 1, 2].map((rank) =>
      createAgent({ name: `w${rank}`, rank, membership: 'dynamic', store, initTimeoutMs: 20_000, ...options }),
    ),
  );
}

/** What a group does, each a step of its own; they are run on the first worker, once all know each other. */
export const STEPS: readonly (readonly [name: string, run: (agents: readonly RpcAgent[]) => Promise<void>])[] = [
  ['calls', calls],
  ['errors', errors],
  ['references', references],
  ['gradients', gradients],
  ['failing passes', failingPasses],
  ['profiles', profiles],
  ['departure', departure],
];

async function calls(): Promise<void> {
  const values = [
    ...[undefined, null, true, -0, 1.5, 2n ** 80n, -5n, 'größe', '\ud800', new Date(7), [1, [2]], { a: { b: 1 } }],
    ...[new Map<unknown, unknown>([[1, tensor([1, 2])]]), new Set(['x']), new Float32Array(3), new Uint8Array(2)],
    ...[
      new RangeError('inside', { cause: 1 }),
      new AggregateError([new Error('e')]),
      Array.from({ length: 9 }, Math.sqrt),
    ],
    ...[new Point(3), getWorkerInfo(), tensor([[1, 2]], { dtype: 'int32' }), ones([2], { requiresGrad: true })],
  ];
  for (const value of values) await rpcSync('w1', echo, [value]);
  await rpcSync('w1', echo, [values]);
  await rpcSync('w1', add, [ones([2]), 2]);
  await rpcSync('w1', echo, [1], { idempotencyKey: 'a key' });
  rpcOneway('w1', echo, ['one way']);
  for await (const { t } of rpcStream('w1', items, [3])) t.dispose();
}

async function errors(): Promise<void> {
  await refused(rpcSync('w1', fail, ['größe']));
  await refused(rpcSync('w1', remoteFunction<() => number>('live/nobody'), []));
  await refused(rpcSync('w1', matmul, [ones([2, 3]), ones([2, 3])]));
}

async function references(): Promise<void> {
  using mine = remote('w1', square, [ones([2])]);
  using sum = remote('w1', add, [ones([2]), ones([2])]);
  using counter = remote('w1', Counter, []);
  using failing = remote('w1', fail, ['of a reference']);
  using late = remote('w1', slow, [60], { timeoutMs: 10 });
  await mine.toHere();
  await sum.toHere();
  await refused(failing.toHere());
  await refused(late.toHere());
  await counter.rpcSync().increase(2);
  await refused(counter.rpcSync().increase(-2));
  await rpcSync('w2', read, [mine]);
  await rpcSync('w1', passOn, [mine, 'w2']);
  await mine.confirmed();
}

async function gradients(): Promise<void> {
  await context(async (id) => {
    const x = ones([2], { requiresGrad: true });
    using there = remote('w1', square, [x]);
    const y = await rpcAsync('w1', through, ['w2', x]);
    const z = await rpcAsync('w1', add, [x, await there.toHere()]);
    await backward(id, [y.add(z).sum()]);
    if (getGradients(id).get(x) === undefined) throw new Error('no gradient');
  });
  // A graph of many functions is not looked through for each message, so its passes have to ask.
  await context(async (id) => {
    let x: Tensor = ones([2], { requiresGrad: true });
    for (let i = 0; i < 100; i++) x = x.mul(1);
    const y = await rpcAsync('w1', add, [x, x]);
    await backward(id, [y.sum()], { retainGraph: true });
    await backward(id, [y.sum()]);
  });
  await context(async (id) => {
    using there = remote('w1', sumOf, [ones([2], { requiresGrad: true })]);
    await there.confirmed();
    await there.backward(id);
  });
}
const sumOf = rpcFunction('live/sum', (x: Tensor) => x.sum());

async function failingPasses(agents: readonly RpcAgent[]): Promise<void> {
  await context(async (id) => {
    const x = ones([2], { requiresGrad: true });
    const y = await rpcAsync('w1', through, ['w2', x]);
    // The pass is held up, so that there is one to be given up everywhere.
    const stop = new AbortController();
    x.registerHook(() => {
      stop.abort(new Error('enough'));
      throw new RangeError('in a hook');
    });
    await refused(backward(id, [y.sum()], { signal: stop.signal }));
  });
  await quiet(agents);
}

async function profiles(): Promise<void> {
  await profiler.profile(
    async () => {
      await rpcSync('w1', square, [ones([2])]);
      await rpcSync('w1', add, [ones([2]), 1]);
      await context(async (id) => {
        const x = ones([2], { requiresGrad: true });
        await backward(id, [(await rpcAsync('w1', through, ['w2', x])).sum()]);
      });
      using there = remote('w1', square, [ones([2])]);
      await there.toHere();
      await refused(rpcSync('w1', fail, ['in a profile']));
    },
    { recordShapes: true, profileMemory: true },
  );
}

/** The last worker leaves, while references and a context are about. */
async function departure(agents: readonly RpcAgent[]): Promise<void> {
  const [, second, third] = agents as [RpcAgent, RpcAgent, RpcAgent];
  using mine = remote('w1', square, [ones([2])]);
  await mine.confirmed();
  await context(async () => {
    await rpcSync('w1', through, ['w2', ones([2], { requiresGrad: true })]);
    if (third.debugInfo()['num_autograd_contexts'] !== 1) throw new Error('the third is not in the context');
    await third.shutdown({ timeoutMs: 10_000 });
    await until(() => second.debugInfo()['agent.peers'] === 1 && agents[0]?.debugInfo()['agent.peers'] === 1);
  });
  await quiet(agents.slice(0, 2));
}

/** Waits for contexts and references that are on their way out. */
async function quiet(agents: readonly RpcAgent[]): Promise<void> {
  await until(() => agents.every((agent) => agent.debugInfo()['num_autograd_contexts'] === 0));
}

export async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; !condition(); i++) {
    if (i > 5_000) throw new Error('it did not come true');
    await sleep(2);
  }
}

async function refused(promise: Promise<unknown>): Promise<void> {
  try {
    await promise;
  } catch {
    return;
  }
  throw new Error('it went well');
}
