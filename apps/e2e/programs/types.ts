/** What a user's compiler sees of everything. */
import {
  distAutograd,
  initRpc,
  launch,
  nn,
  optim,
  profiler,
  registerValueType,
  remote,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcName,
  rpcSync,
  shutdown,
  tensor,
  unique,
  type LaunchResult,
  type RRef,
  type RpcOptions,
  type Tensor,
} from 'backwire';

class Counter {
  static readonly [rpcName] = 'Counter';
  n = 0;
  add(by: number): number {
    return (this.n += by);
  }
}
rpcClass(Counter, { methods: ['add'] });
registerValueType({
  name: 'Counter',
  match: Counter,
  encode: ({ n }) => n,
  decode: (n) => Object.assign(new Counter(), { n }),
});

const scale = rpcFunction('scale', (x: Tensor, by: number): Tensor => x.mul(by));

export async function main(options: RpcOptions): Promise<number> {
  await initRpc({ ...options, extensions: [await profiler.openTelemetry()] });
  const y: Tensor = await rpcSync('worker1', scale, [tensor([1, 2]), 3]);
  // @ts-expect-error -- the arguments are those of the function
  await rpcSync('worker1', scale, [tensor([1]), 'three']).catch((error: unknown) => rpcInfo(error)?.code);
  const counter: RRef<Counter> = remote('worker1', Counter);
  const n: number = await counter.rpcSync().add(2);
  const layer = await distAutograd.RemoteModule.create('worker1/cpu', nn.Linear, [4, 2]);
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, await layer.remoteParameters(), {
    lr: 0.1,
  });
  await distAutograd.context(async (id) => {
    await distAutograd.backward(id, [(await layer.forward(y)).sum()]);
    await optimizer.step(id);
  });
  const started: LaunchResult = await launch({ program: 'worker.ts', processes: 2 });
  await shutdown();
  return n + started.exitCode;
}

// What a program exports without saying its type: the declarations that the compiler makes of it name types that can be imported.
export const Shelf = rpcClass(
  class {
    static readonly [rpcName] = 'Shelf';
    static of(width: number): number {
      return width;
    }
    put(what: string): string {
      return what;
    }
  },
  { methods: ['put'], statics: ['of'] },
);
export const Counters = rpcClass(Counter, { methods: ['add'] });
export const scaled = scale;
export const shelf = () => remote('worker1', Shelf).rpcAsync();
export const best = (x: Tensor) => [x.topK(1), x.max(0), x.sort()] as const;
export const shapeOf = (x: Tensor) => x.shape;
export const distinct = (x: Tensor) => unique(x);
export const native = (x: Tensor) => x.toTf();
export const peerOf = (error: unknown) => rpcInfo(error)?.peer;
export const measured = () => profiler.measureCalls();
