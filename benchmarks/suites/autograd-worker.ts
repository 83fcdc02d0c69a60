/** @file The trainer (rank 0) and its helper (rank 1) of the suite of distributed autograd. */
import { initRpc, rpcSync } from '@backwire/rpc';
import {
  backward,
  context,
  distAutograd,
  DistributedOptimizer,
  getGradients,
  RemoteModule,
} from '@backwire/dist-autograd';
import { createRRef, rrefs } from '@backwire/rref';
import { add, nn, ones, optim, randn } from '@backwire/tensor';
import { serveAsks } from '../processes.ts';
import { Mlp } from './autograd-model.ts';

const BATCH = 256;

const rank = Number(process.env['BENCH_RANK']);
// The helper starts first, and is up when the trainer is.
const joining = initRpc({
  name: `w${rank}`,
  rank,
  worldSize: 2,
  store: process.env['BENCH_STORE'] ?? '',
  transports: ['unix'],
  channels: [],
  extensions: [rrefs(), distAutograd()],
});
if (rank === 0) await joining;

serveAsks({ hop, crowd, split, whole, close: async () => (await joining).shutdown({ graceful: false }) });

/** Microseconds of each context with one remote addition and its backward pass. */
async function hop(count: number): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) samples.push(await oneHop());
  return samples;
}

async function oneHop(): Promise<number> {
  const a = ones([4, 4], { requiresGrad: true });
  const b = ones([4, 4], { requiresGrad: true });
  const started = performance.now();
  await context(async (id) => {
    const sum = await rpcSync('w1', add, [a, b]);
    const loss = sum.sum();
    await backward(id, [loss]);
    const gradients = getGradients(id);
    gradients[Symbol.dispose]();
    sum.dispose();
    loss.dispose();
  });
  const elapsed = (performance.now() - started) * 1_000;
  a.dispose();
  b.dispose();
  return elapsed;
}

/** Microseconds of each hop while `open` other contexts are. */
async function crowd(open: number, count: number): Promise<number[]> {
  let leave = (): void => undefined;
  const left = new Promise<void>((resolve) => (leave = resolve));
  const a = ones([4, 4], { requiresGrad: true });
  let inside = 0;
  let full = (): void => undefined;
  const entered = new Promise<void>((resolve) => (full = resolve));
  const agent = await joining;
  const others = Array.from({ length: open }, () =>
    agent.run(() =>
      context(async () => {
        (await rpcSync('w1', add, [a, 1])).dispose();
        if (++inside === open) full();
        await left;
      }),
    ),
  );
  if (open > 0) await entered;
  const samples = await hop(count);
  leave();
  await Promise.all(others);
  a.dispose();
  return samples;
}

/** Milliseconds of each step of a model whose second half is at the helper. */
async function split(steps: number, width: number): Promise<number[]> {
  const first = new Mlp(width, width);
  const second = await RemoteModule.create('w1', Mlp, [width, 16]);
  const optimizer = await DistributedOptimizer.create(
    optim.SGD,
    [...first.parameters().map((parameter) => createRRef(parameter)), ...(await second.remoteParameters())],
    { lr: 0.01 },
  );
  const input = randn([BATCH, width]);
  const samples: number[] = [];
  for (let i = 0; i < steps; i++) {
    const started = performance.now();
    await context(async (id) => {
      const out = await second.forward(first.forward(input));
      await backward(id, [out.mul(out).mean()]);
      await optimizer.step(id);
    });
    samples.push(performance.now() - started);
  }
  return samples;
}

/** The same with both halves here. */
function whole(steps: number, width: number): number[] {
  const model = new nn.Sequential(new Mlp(width, width), new Mlp(width, 16));
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
  const input = randn([BATCH, width]);
  const samples: number[] = [];
  for (let i = 0; i < steps; i++) {
    const started = performance.now();
    optimizer.zeroGrad();
    const out = model.forward(input);
    out.mul(out).mean().backward();
    optimizer.step();
    samples.push(performance.now() - started);
  }
  return samples;
}
