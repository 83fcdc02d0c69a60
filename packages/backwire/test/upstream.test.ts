/** @file PyTorch's tests that need several packages at once, with the programs and the comparisons of the originals. */
import { afterEach, describe, expect, it } from 'vitest';
import {
  add,
  createAgent,
  createRRef,
  distAutograd,
  getWorkerInfo,
  nn,
  ones,
  optim,
  randn,
  remote,
  remoteFunction,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcName,
  rpcSync,
  rrefDebugInfo,
  sparseCooTensor,
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
/** Runs `fn` on the first of `size` workers. */
async function onFirst<T>(size: number, fn: () => Promise<T>, options: Partial<RpcOptions> = {}): Promise<T> {
  const store = `memory://umbrella-upstream-${groups++}`;
  agents = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      createAgent({ name: `worker${rank}`, rank, worldSize: size, store, ...options }),
    ),
  );
  return (agents[0] as RpcAgent).run(fn);
}
const sparse = (): Tensor =>
  sparseCooTensor(tensor([[0, 2, 2], [2, 0, 2]], { dtype: 'int64' }), tensor([3, 4, 5]), [3, 3]); // prettier-ignore
const shown = (t: Tensor): unknown => [t.layout, t.dtype, t.shape, t.toDense().toArray()];

const addAll = rpcFunction('upstream/add-all', (x: Tensor, y: Tensor, z: Tensor) => x.add(y).add(z));
class AsyncExecution {
  static readonly [rpcName] = 'upstream/AsyncExecution';
  static staticAsyncAdd(to: string, x: Tensor, y: Tensor, z: number): Promise<Tensor> {
    return rpcAsync(to, add, [x, y]).then((sum) => sum.add(z));
  }
  /** PyTorch's class method: it needs its class, and returns a promise made by hand. */
  static classAsyncAdd(to: string, x: Tensor, y: Tensor, z: number): Promise<Tensor> {
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
    onFirst(2, async () => {
      const [x, y, z] = [sparse(), sparse(), sparse()];
      for (const to of [getWorkerInfo(), 'worker0', 0]) {
        using sum = remote(to, addAll, [x, y, z]);
        expect(shown(await sum.toHere())).toEqual(shown(x.add(y).add(z)));
      }
    }));

  it.each([
    ['static', 'sync'],
    ['static', 'async'],
    ['static', 'remote'],
    ['class', 'sync'],
    ['class', 'async'],
    ['class', 'remote'],
  ])('an asynchronous %s method calls on and answers: %s', (kind, mode) =>
    onFirst(3, async () => {
      const fn = staticMethod(`${kind}AsyncAdd`);
      const args = ['worker2', ones([2, 2]), ones([2, 2]), 2] as const;
      using rref = mode === 'remote' ? remote('worker1', fn, args) : undefined;
      const call = mode === 'sync' ? rpcSync : rpcAsync;
      const sum = await (rref?.toHere() ?? call('worker1', fn, args));
      expect(sum.toArray()).toEqual(ones([2, 2]).add(3).toArray());
    }),
  );

  it('debugInfo of an agent has its own keys, those of RRefs and those of autograd, each once', () =>
    onFirst(2, async () => {
      const all = Object.keys(agents[0]!.debugInfo());
      const parts = [
        all.filter((key) => key.startsWith('agent.')),
        Object.keys(rrefDebugInfo()),
        Object.keys(distAutograd.distAutogradDebugInfo()),
      ];
      const known = parts.flat();
      expect(new Set(known).size).toBe(known.length);
      expect(parts.every((keys) => keys.length > 0)).toBe(true);
      const more = ['num_collected_rrefs', 'num_delete_messages', 'num_profiled_calls', 'num_profiler_hooks'];
      expect(all.toSorted()).toEqual([...known, ...more].toSorted());
    }));

  it('a call that was waited for is done', () =>
    onFirst(2, async () => {
      let state = 'pending';
      const call = rpcAsync('worker1', add, [zeros([2]), 1]).finally(() => (state = 'done'));
      expect(state).toBe('pending');
      expect((await call).toArray()).toEqual([1, 1]);
      expect(state).toBe('done');
      // Whoever waits for it again gets it at once, before anything that comes later.
      expect(await Promise.race([call.then(() => 'call'), new Promise((resolve) => setImmediate(resolve, 'later'))])).toBe('call'); // prettier-ignore
    }));
});

describe('faults on purpose', () => {
  const count = (): number =>
    agents.reduce((sum, agent) => sum + Number(agent.debugInfo()['agent.injected_faults']), 0);

  it('forks, acceptances and deletes that fail three times each get through, and nothing is left', () =>
    onFirst(
      3,
      async () => {
        {
          using rref = remote('worker1', add, [ones([2, 2]), ones([2, 2])]);
          using sum = remote('worker2', addRRef, [rref, ones([2, 2])]);
          expect((await rref.toHere()).toArray()).toEqual(ones([2, 2]).mul(2).toArray());
          expect((await sum.toHere()).toArray()).toEqual(ones([2, 2]).mul(3).toArray());
        }
        await expect
          .poll(() => agents.map((agent) => [agent.debugInfo()['num_owner_rrefs'], agent.debugInfo()['num_forks']]))
          .toEqual(agents.map(() => [0, 0]));
        // The fork that worker2 asked for, its acceptance by worker1 or the owner, and the deletes of both users.
        expect(count()).toBeGreaterThanOrEqual(9);
      },
      { faults: { failFirst: { RREF_FORK_REQUEST: 3, RREF_CHILD_ACCEPT: 3, RREF_USER_DELETE: 3 } } },
    ));

  it.each([
    ['of tensors that require gradients', true],
    ['of tensors that require none', false],
  ])('a context is cleaned up on every worker although telling them fails three times: %s', (_, requiresGrad) =>
    onFirst(
      4,
      async () => {
        const [a, b] = [ones([3, 3], { requiresGrad }), zeros([3, 3], { requiresGrad })];
        const known = (): unknown[] => agents.map((agent) => agent.debugInfo()['num_autograd_contexts']);
        let left = 0n;
        await distAutograd.context(async (id) => {
          left = id;
          for (const to of [1, 2, 3]) await rpcSync(to, sum2, [a, b]);
          expect(known()).toEqual([1, 1, 1, 1]);
          if (requiresGrad) await distAutograd.backward(id, [(await rpcSync(1, add, [a, b])).sum()]);
        });
        expect(() => distAutograd.getGradients(left)).toThrow(`Could not find autograd context with id: ${left}`);
        await expect.poll(known).toEqual([0, 0, 0, 0]);
        expect(count()).toBeGreaterThanOrEqual(3);
      },
      { faults: { failFirst: { CLEANUP_AUTOGRAD_CONTEXT_REQ: 3 } } },
    ),
  );
});
const sum2 = rpcFunction('upstream/sum', (a: Tensor, b: Tensor) => a.add(b));
const addRRef = rpcFunction('upstream/add-rref', async (rref: RRef<Tensor>, x: Tensor) => {
  using held = rref;
  return (await held.toHere()).add(x);
});

const [IN, OUT, BATCH, BATCHES] = [100, 30, 20, 4];
class BatchUpdateParameterServer {
  static readonly [rpcName] = 'upstream/BatchUpdateParameterServer';
  private readonly model = new nn.Linear(IN, OUT);
  private readonly optimizer = new optim.SGD(this.model.parameters(), { lr: 0.001, momentum: 0.9 });
  private readonly batch: number;
  private sums: Tensor[] | undefined;
  private waiting: ((model: Parameter[]) => void)[] = [];
  /** How many gradients each step has averaged. */
  readonly steps: number[] = [];

  constructor(batch: number) {
    this.batch = batch;
  }

  getModel(): Parameter[] {
    return this.model.parameters();
  }

  /** Answers all trainers of a batch with the model, when the last of their gradients has come and the optimiser has made its step. */
  static async updateAndFetchModel(rref: RRef<BatchUpdateParameterServer>, grads: Tensor[]): Promise<Parameter[]> {
    const self = await rref.localValue();
    self.sums = self.sums?.map((sum, i) => sum.add(grads[i]!)) ?? grads;
    const answer = new Promise<Parameter[]>((resolve) => self.waiting.push(resolve));
    if (self.waiting.length === self.batch) {
      self.optimizer.step(self.sums.map((sum) => sum.div(self.batch)));
      self.steps.push(self.waiting.length);
      self.sums = undefined;
      for (const resolve of self.waiting.splice(0)) resolve(self.model.parameters());
    }
    return answer;
  }
}
rpcClass(BatchUpdateParameterServer, { methods: ['getModel'], statics: ['updateAndFetchModel'] });
const updateAndFetchModel = remoteFunction<typeof BatchUpdateParameterServer.updateAndFetchModel>(
  'upstream/BatchUpdateParameterServer.updateAndFetchModel',
);
const runTrainer = rpcFunction('upstream/run-trainer', async (server: RRef<BatchUpdateParameterServer>) => {
  let [weight, bias] = (await server.rpcSync().getModel()) as [Parameter, Parameter];
  const input = randn([BATCH, IN]);
  const losses: number[] = [];
  for (let i = 0; i < BATCHES; i++) {
    for (const p of [weight, bias]) p.requiresGrad = true;
    const loss = input.matmul(weight.transpose(0, 1)).add(bias).abs().mean();
    loss.backward();
    losses.push(loss.item());
    const grads = [weight.grad!, bias.grad!];
    [weight, bias] = (await rpcSync(server.owner(), updateAndFetchModel, [server, grads])) as [Parameter, Parameter];
  }
  return { losses, weight: weight.toArray() };
});

it('a parameter server behind an RRef makes one step for the gradients of all trainers, and answers all with the model', () =>
  onFirst(4, async () => {
    const server = new BatchUpdateParameterServer(3);
    using rref = createRRef(server);
    const before = server.getModel().map((p) => p.toArray());
    const results: { losses: number[]; weight: unknown }[] = [];
    await waitAll(() => {
      for (const to of [1, 2, 3]) void rpcAsync(to, runTrainer, [rref]).then((result) => results.push(result));
    });
    expect(server.steps).toEqual([3, 3, 3, 3]);
    for (const { losses, weight } of results) {
      expect(weight).toEqual(server.getModel()[0]!.toArray());
      expect(losses.at(-1)).toBeLessThan(losses[0]!);
    }
    expect(results).toHaveLength(3);
    expect(server.getModel().map((p) => p.toArray())).not.toEqual(before);
  }));
