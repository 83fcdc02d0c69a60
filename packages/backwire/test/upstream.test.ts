/** @file PyTorch's tests that need several packages at once, with the programs and the comparisons of the originals. */
import { afterEach, describe, expect, it } from 'vitest';
import { createAgent as createBareAgent } from '@backwire/rpc';
import { countInjectedFaults, errorMatching, shown } from '@backwire/testing';
import {
  add,
  barrier,
  createAgent,
  createRRef,
  distAutograd,
  getWorkerInfo,
  l1Loss,
  nn,
  ones,
  optim,
  randn,
  remote,
  remoteFunction,
  rpcAsync,
  rpcClass,
  RpcError,
  rpcFunction,
  rpcName,
  rpcSync,
  rrefDebugInfo,
  sparseCooTensor,
  stack,
  tensor,
  waitAll,
  zeros,
  type Parameter,
  type RpcAgent,
  type RpcOptions,
  type RRef,
  type Tensor,
} from '../src/index.ts';

let agents: RpcAgent[] = [];
let groups = 0;
afterEach(async () => {
  const ends = await Promise.allSettled(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
  agents = [];
  expect(ends.filter(({ status }) => status === 'rejected')).toEqual([]);
});
type Options = Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>);
async function start(size: number, options: Options = {}): Promise<void> {
  const store = `memory://umbrella-upstream-${groups++}`;
  const of = typeof options === 'function' ? options : () => options;
  agents = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      createAgent({ name: `worker${rank}`, rank, worldSize: size, store, ...of(rank) }),
    ),
  );
}
/** Runs `fn` on the first of `size` workers. */
async function onFirst<T>(size: number, fn: () => Promise<T>, options: Partial<RpcOptions> = {}): Promise<T> {
  await start(size, options);
  return agents[0]!.run(fn);
}
/** Runs `fn` on all of `size` workers at once; `after(1)` is the name of the next one. */
async function onAll(
  size: number,
  fn: (rank: number, after: (n: number) => string) => Promise<void>,
  options: Options = {},
): Promise<void> {
  await start(size, options);
  const one = (agent: RpcAgent, rank: number): Promise<void> =>
    agent.run(() => fn(rank, (n) => `worker${(rank + n) % size}`));
  await Promise.all(agents.map(one));
}
const sparse = (): Tensor =>
  sparseCooTensor(tensor([[0, 1, 1], [2, 0, 2]], { dtype: 'int64' }), tensor([3, 4, 5], { dtype: 'int64' }), [2, 3]); // prettier-ignore

const addAll = rpcFunction('upstream/add-all', (x: Tensor, y: Tensor, z: Tensor) => x.add(y).add(z));
class AsyncExecution {
  static readonly [rpcName] = 'upstream/AsyncExecution';
  static staticAsyncAdd(to: string, x: Tensor, y: number, z: number): Promise<Tensor> {
    return rpcAsync(to, add, [x, y]).then((sum) => sum.add(z));
  }
  /** PyTorch's class method: it needs its class, and returns a promise made by hand. */
  static classAsyncAdd(to: string, x: Tensor, y: number, z: number): Promise<Tensor> {
    return new Promise((resolve, reject) => {
      this.staticAsyncAdd(to, x, y, z).then(resolve, reject);
    });
  }
}
rpcClass(AsyncExecution, { methods: [], statics: ['staticAsyncAdd', 'classAsyncAdd'] });
const staticMethod = (name: string) =>
  remoteFunction<typeof AsyncExecution.staticAsyncAdd>(`upstream/AsyncExecution.${name}`);

describe('calls', () => {
  it('a remote call of a function to this worker gives the sum of sparse arguments', () =>
    onAll(4, async (rank) => {
      const [x, y, z] = [sparse(), sparse().mul(2), sparse().mul(rank + 3)];
      for (const to of [getWorkerInfo(), `worker${rank}`, rank]) {
        using made = remote(to, addAll, [x, y, z]);
        const [sum, expected] = [await made.toHere(), x.add(y).add(z)];
        expect([made.isOwner(), made.owner().id]).toEqual([true, rank]);
        expect([shown(sum), sum.isCoalesced]).toEqual([shown(expected), expected.isCoalesced]);
      }
    }));

  it.each([
    ['static', 'sync'],
    ['static', 'async'],
    ['static', 'remote'],
    ['class', 'sync'],
    ['class', 'async'],
    ['class', 'remote'],
  ])('an asynchronous %s method calls on and answers: %s', async (kind, mode) => {
    await onAll(4, async (rank, after) => {
      const fn = staticMethod(`${kind}AsyncAdd`);
      const args = [after(2), ones([2, 2]), 1, rank + 2] as const;
      using rref = mode === 'remote' ? remote(after(1), fn, args) : undefined;
      const call = mode === 'sync' ? rpcSync : rpcAsync;
      const sum = await (rref?.toHere() ?? call(after(1), fn, args));
      expect(shown(sum)).toEqual(shown(ones([2, 2]).mul(4 + rank)));
    });
    // What each asked of the next one, the value of an RRef besides, and what it asked the third for the one before.
    const each = mode === 'remote' ? 3 : 2;
    expect(agents.map((agent) => agent.metrics().calls_sent)).toEqual([each, each, each, each]);
  });

  it('debugInfo of an agent has its own keys, those of RRefs and those of autograd, each once', async () => {
    // An agent without extensions has its own keys alone.
    const bare = await createBareAgent({
      name: 'bare',
      rank: 0,
      worldSize: 1,
      store: 'memory://umbrella-upstream-bare',
    });
    const own = Object.keys(bare.debugInfo());
    await bare.shutdown();
    await onAll(4, async (rank) => {
      const all = Object.keys(agents[rank]!.debugInfo());
      const parts = [own, Object.keys(rrefDebugInfo()), Object.keys(distAutograd.distAutogradDebugInfo())];
      const known = parts.flat();
      expect(new Set(known).size).toBe(known.length);
      expect(parts.every((keys) => keys.length > 0)).toBe(true);
      const more = ['num_collected_rrefs', 'num_delete_messages', 'num_profiled_calls', 'num_profiler_hooks'];
      expect(all.toSorted()).toEqual([...known, ...more].toSorted());
    });
  });
});

describe('faults on purpose', () => {
  const { logger, failed } = countInjectedFaults();
  /** The first three of each, as PyTorch's agent with faults does unless it is told otherwise. */
  const CONTROL = {
    RREF_FORK_REQUEST: 3,
    RREF_CHILD_ACCEPT: 3,
    RREF_USER_DELETE: 3,
    CLEANUP_AUTOGRAD_CONTEXT_REQ: 3,
  };
  /** What that agent holds back, for 1.5 s. */
  const CALLS = { PYTHON_CALL: 15, SCRIPT_CALL: 15 };
  const count = (): number =>
    agents.reduce((sum, agent) => sum + Number(agent.debugInfo()['agent.injected_faults']), 0);

  it('forks, acceptances and deletes that fail three times each get through, and nothing is left', () =>
    onFirst(
      4,
      async () => {
        const added = addRRefRuns;
        {
          using rref = remote('worker1', add, [ones([2, 2]), ones([2, 2])]);
          // As in PyTorch's test nobody keeps this one, which is let go of while it is being made, and is made all the same.
          remote('worker2', addRRef, [rref, ones([2, 2])]).dispose();
          using sum = remote('worker2', addRRef, [rref, ones([2, 2])]);
          expect(shown(await rref.toHere())).toEqual(shown(ones([2, 2]).add(ones([2, 2]))));
          expect(shown(await sum.toHere())).toEqual(shown(ones([2, 2]).mul(3)));
        }
        const tables = ['num_owner_rrefs', 'num_forks', 'num_pending_users', 'num_pending_children'];
        const left = (): unknown[] => agents.map((agent) => tables.map((table) => agent.debugInfo()[table]));
        await expect.poll(left).toEqual(agents.map(() => tables.map(() => 0)));
        expect(addRRefRuns - added).toBe(2);
        // The first request and the first acceptance of the forks on worker2, and the first deletes of either user.
        expect(Object.fromEntries(failed)).toEqual({ RREF_FORK_REQUEST: 3, RREF_CHILD_ACCEPT: 3, RREF_USER_DELETE: 6 });
        expect(count()).toBe(12);
      },
      { logger, faults: { failFirst: CONTROL } },
    ));

  it.each([
    ['of tensors that require gradients', true],
    ['of tensors that require none', false],
  ])('a context is cleaned up on every worker although telling them fails three times: %s', async (_, requiresGrad) => {
    const left = new Map<number, bigint>();
    noted.clear();
    const known = (): unknown[] => agents.map((agent) => agent.debugInfo()['num_autograd_contexts']);
    const run = async (rank: number, after: (n: number) => string): Promise<void> => {
      const [a, b] = [ones([3, 3], { requiresGrad }), zeros([3, 3], { requiresGrad })];
      await distAutograd.context(async (id) => {
        left.set(rank, id);
        for (const to of [1, 2, 3].map(after)) {
          await rpcSync(to, add, [a, b]);
          // An operation on tensors that require none says nothing of the context.
          if (!requiresGrad) await rpcSync(to, sum2, [a, b]);
          await rpcSync(to, noteContext, [id]);
        }
        await barrier();
        expect(known()).toEqual([4, 4, 4, 4]);
        if (requiresGrad) await distAutograd.backward(id, [(await rpcSync(after(1), add, [a, b])).sum()]);
        await barrier();
      });
      expectUnknown(left.get(rank)!);
    };
    const faults = [0, 1, 2, 3].map(() => countInjectedFaults());
    await onAll(4, run, (rank) => ({ logger: faults[rank]!.logger, faults: { failFirst: CONTROL, delayMs: CALLS } }));
    expect(left.size).toBe(4);
    await expect.poll(known).toEqual([0, 0, 0, 0]);
    // Those of the other three, of which each worker was told while they were there.
    for (const [rank, agent] of agents.entries()) {
      const others = [...left].filter(([of]) => of !== rank).map(([, id]) => id);
      expect(noted.get(rank)?.toSorted()).toEqual(others.toSorted());
      agent.run(() => others.forEach(expectUnknown));
    }
    for (const { failed } of faults) expect(Object.fromEntries(failed)).toEqual({ CLEANUP_AUTOGRAD_CONTEXT_REQ: 3 });
  });
});
const expectUnknown = (id: bigint): void =>
  expect(() => distAutograd.getGradients(id)).toThrow(
    errorMatching(RpcError, { code: 'not-found', message: `Could not find autograd context with id: ${id}` }),
  );
/** The contexts that each worker was told of, by its rank. */
const noted = new Map<number, bigint[]>();
const noteContext = rpcFunction('upstream/note-context', (id: bigint) => {
  const { id: rank } = getWorkerInfo();
  noted.set(rank, [...(noted.get(rank) ?? []), id]);
});
const sum2 = rpcFunction('upstream/sum', (a: Tensor, b: Tensor) => a.add(b));
let addRRefRuns = 0;
const addRRef = rpcFunction('upstream/add-rref', async (rref: RRef<Tensor>, x: Tensor) => {
  using held = rref;
  const sum = (await held.toHere()).add(x);
  addRRefRuns++;
  return sum;
});

const [IN, OUT, BATCH, BATCHES] = [100, 30, 20, 4];
class BatchUpdateParameterServer {
  static readonly [rpcName] = 'upstream/BatchUpdateParameterServer';
  private readonly model = new nn.Linear(IN, OUT);
  private readonly optimizer = new optim.SGD(this.model.parameters(), { lr: 0.001, momentum: 0.9 });
  private readonly batch: number;
  private waiting: ((model: Parameter[]) => void)[] = [];
  /** How many gradients each step has averaged. */
  readonly steps: number[] = [];

  constructor(batch: number) {
    this.batch = batch;
    for (const p of this.model.parameters()) p.grad = zeros(p.shape);
  }

  getModel(): Parameter[] {
    return this.model.parameters();
  }

  /** Answers all trainers of a batch with the model, when the last of their gradients has come and the optimiser has made its step. */
  static async updateAndFetchModel(rref: RRef<BatchUpdateParameterServer>, grads: Tensor[]): Promise<Parameter[]> {
    const self = await rref.localValue();
    const parameters = self.model.parameters();
    // Added to the zeros at first; later to none, as a step leaves it.
    for (const [i, p] of parameters.entries()) p.grad = p.grad?.add(grads[i]!) ?? grads[i]!;
    const answer = new Promise<Parameter[]>((resolve) => self.waiting.push(resolve));
    if (self.waiting.length === self.batch) {
      for (const p of parameters) p.grad = p.grad!.div(self.batch);
      self.optimizer.step();
      self.optimizer.zeroGrad();
      self.steps.push(self.waiting.length);
      for (const resolve of self.waiting.splice(0)) resolve(parameters);
    }
    return answer;
  }
}
rpcClass(BatchUpdateParameterServer, { methods: ['getModel'], statics: ['updateAndFetchModel'] });
const updateAndFetchModel = remoteFunction<typeof BatchUpdateParameterServer.updateAndFetchModel>(
  'upstream/BatchUpdateParameterServer.updateAndFetchModel',
);
/** The gradients that a trainer sent with a batch, and the model that it got for them. */
interface Batch {
  readonly grads: Values[];
  readonly model: Values[];
}
type Values = ReturnType<Tensor['toArray']>;
const values = (ts: readonly Tensor[]): Values[] => ts.map((t) => t.toArray());
const runTrainer = rpcFunction('upstream/run-trainer', async (server: RRef<BatchUpdateParameterServer>) => {
  let [weight, bias] = (await server.rpcSync().getModel()) as [Parameter, Parameter];
  const lossOf = (input: Tensor): Tensor => l1Loss(input.matmul(weight.transpose(0, 1)).add(bias), zeros([BATCH, OUT]));
  const first = randn([BATCH, IN]);
  const before = lossOf(first).item();
  const batches: Batch[] = [];
  for (let i = 0; i < BATCHES; i++) {
    for (const p of [weight, bias]) p.requiresGrad = true;
    lossOf(i === 0 ? first : randn([BATCH, IN])).backward();
    const grads = [weight.grad!, bias.grad!];
    [weight, bias] = (await rpcSync(server.owner(), updateAndFetchModel, [server, grads])) as [Parameter, Parameter];
    batches.push({ grads: values(grads), model: values([weight, bias]) });
  }
  return { before, after: lossOf(first).item(), batches };
});

it('a parameter server behind an RRef makes one step for the gradients of all trainers, and answers all with the model', () =>
  onFirst(4, async () => {
    const server = new BatchUpdateParameterServer(3);
    using rref = createRRef(server);
    // What the server does is done here once more, with the gradients that the trainers have sent.
    const copies = server.getModel().map((p) => Object.assign(p.detach().clone(), { requiresGrad: true }));
    const optimizer = new optim.SGD(copies, { lr: 0.001, momentum: 0.9 });
    const results: Awaited<ReturnType<typeof runTrainer>>[] = [];
    await waitAll(() => {
      for (const to of ['worker1', 'worker2', 'worker3'])
        void rpcAsync(to, runTrainer, [rref]).then((result) => results.push(result));
    });
    expect(server.steps).toEqual([3, 3, 3, 3]);
    expect(results.map(({ batches }) => batches.length)).toEqual([BATCHES, BATCHES, BATCHES]);
    for (let i = 0; i < BATCHES; i++) {
      const [one, two, three] = results.map(({ batches }) => batches[i]!) as [Batch, Batch, Batch];
      expect([two.model, three.model]).toEqual([one.model, one.model]);
      const sent = (k: number): Tensor[] => [one, two, three].map(({ grads }) => tensor(grads[k]!));
      optimizer.step(copies.map((_, k) => stack(sent(k)).mean(0)));
      // The server adds them up in the order in which they come.
      for (const [k, copy] of copies.entries())
        expect(copy.allClose(tensor(one.model[k]!), { rtol: 0, atol: 1e-7 })).toBe(true);
    }
    expect(results[0]!.batches.at(-1)!.model).toEqual(values(server.getModel()));
    for (const { before, after } of results) expect(after).toBeLessThan(before);
  }));
