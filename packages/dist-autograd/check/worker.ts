/** @file A process of a group that runs distributed programs. Rank 0 reads them from its standard input, a line each. */
import { createInterface } from 'node:readline';
import { initRpc, rpcFunction, rpcSync, shutdown } from '@backwire/rpc';
import { remote, createRRef, rrefs, type RRef } from '@backwire/rref';
import { noGrad, optim, tensor, type Tensor } from '@backwire/tensor';
import { backward, context, distAutograd, DistributedOptimizer, getGradients } from '../src/index.ts';
import { currentShare, Layer, open, runBody } from './body.ts';
import type { Iteration, Named, Numbers, Outcome } from './outcome.ts';
import type { Program, Schedule } from './program.ts';

/** What is learnt on this worker outside of layers. */
function own(): [string, Tensor][] {
  const { leaves, tables } = currentShare();
  return [
    ...leaves.flatMap((leaf, i): [string, Tensor][] => (leaf === null ? [] : [[`leaf ${i}`, leaf]])),
    ...tables.flatMap((table, i): [string, Tensor][] => (table === null ? [] : [[`table ${i}`, table.weight]])),
  ];
}

async function ownLayers(): Promise<[string, Tensor][]> {
  const here = currentShare().layers.map(async (rref, i): Promise<[string, Tensor][]> => {
    if (!rref.isOwner()) return [];
    const { weight, bias } = await rref.localValue();
    return [
      [`layer ${i} weight`, weight],
      [`layer ${i} bias`, bias],
    ];
  });
  return (await Promise.all(here)).flat();
}

const parameters = rpcFunction('check/parameters', (): RRef<Tensor>[] => own().map(([, t]) => createRRef(t)));

function numbers(t: Tensor | undefined): Numbers {
  return t === undefined ? null : Array.from(noGrad(() => t.detach().toDense().to('float64')).dataSync());
}

const gradients = rpcFunction('check/gradients', async (id: bigint): Promise<Named> => {
  const found = getGradients(id);
  return Object.fromEntries([...own(), ...(await ownLayers())].map(([name, t]) => [name, numbers(found.get(t))]));
});

const values = rpcFunction('check/values', async (): Promise<Named> => {
  return Object.fromEntries([...own(), ...(await ownLayers())].map(([name, t]) => [name, numbers(t)]));
});

async function everywhere<T>(program: Program, ask: (worker: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: program.workers }, (_, worker) => ask(worker)));
}

const merged = (parts: readonly Named[]): Named => Object.assign({}, ...parts) as Named;

/** What a context has of gradients on a worker that no call has reached. */
async function gradientsAt(worker: number, id: bigint): Promise<Named> {
  try {
    return await rpcSync(worker, gradients, [id]);
  } catch (error) {
    if (error instanceof Error && error.message.includes('Could not find autograd context')) return {};
    throw error;
  }
}

async function train(program: Program): Promise<Outcome> {
  const { dtype, layers, optimizer, schedule } = program;
  const made = layers.map(({ worker, weight, bias }) => {
    const parts = [tensor(Float64Array.from(weight), { dtype, shape: [2, 2] }), tensor([...bias], { dtype })] as const;
    return remote(worker, Layer, [...parts]);
  });
  await everywhere(program, (worker) => rpcSync(worker, open, [JSON.stringify(program), made]));
  const params = [
    ...(await everywhere(program, (worker) => rpcSync(worker, parameters, []))),
    ...(await Promise.all(made.map((rref) => rref.rpcSync().parameters()))),
  ].flat();
  const step =
    optimizer === undefined
      ? undefined
      : await DistributedOptimizer.create(optim[optimizer.name], params, optimizer.options as { lr: number });
  const rates = step !== undefined && schedule !== undefined ? scheduleOf(step, schedule) : undefined;
  const iterations: Iteration[] = [];
  for (let i = 0; i < program.iterations; i++) {
    iterations.push(await iterate(program, step));
    rates?.step();
  }
  for (const rref of [...params, ...made]) rref.dispose();
  return { iterations };
}

function scheduleOf(optimizer: DistributedOptimizer, { name, args, options }: Schedule): optim.lrScheduler.LRScheduler {
  const given = [...args, ...(Object.keys(options).length > 0 ? [options] : [])];
  const made = optim.lrScheduler[name] as new (
    o: optim.lrScheduler.Scheduled,
    ...given: unknown[]
  ) => optim.lrScheduler.LRScheduler;
  return new made(optimizer, ...given);
}

async function iterate(program: Program, step: DistributedOptimizer | undefined): Promise<Iteration> {
  return context(async (id) => {
    const results = await runBody(-1, [currentShare().leaves[0] as Tensor], []);
    const roots: number[][] = [];
    for (const [k, indices] of program.passes.entries()) {
      const picked = [...new Set(indices.map((index) => index % results.length))].map(
        (index) => results[index] as Tensor,
      );
      const sums = picked.filter((t) => t.requiresGrad).map((t) => t.mul(1).sum());
      roots.push(sums.map((t) => t.item()));
      if (sums.length > 0) await backward(id, sums, { retainGraph: k < program.passes.length - 1 });
    }
    const found = merged(await everywhere(program, (worker) => gradientsAt(worker, id)));
    await step?.step(id);
    return {
      roots,
      gradients: found,
      parameters: merged(await everywhere(program, (worker) => rpcSync(worker, values, []))),
    };
  });
}

async function outcomeOf(program: Program): Promise<Outcome> {
  try {
    return await train(program);
  } catch (error) {
    return { iterations: [], failure: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
  }
}

const rank = Number(process.env['RANK']);
await initRpc({ name: `w${rank}`, extensions: [rrefs(), distAutograd()] });
if (rank === 0) {
  console.log('ready');
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'end') break;
    const { number, program } = JSON.parse(line) as { number: number; program: Program };
    console.log(`outcome ${number} ${JSON.stringify(await outcomeOf(program))}`);
  }
}
await shutdown();
