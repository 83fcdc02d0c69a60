/**
 * @file Half a network here, the other half in a process of stock PyTorch, trained by one backward pass that either side may start.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/10-half-and-half/main.ts --from node|python [--steps N]
 */
import { backward, context, DistributedOptimizer } from '@backwire/dist-autograd';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, type RRef } from '@backwire/rref';
import { binaryCrossEntropy, manualSeed, nn, optim, tensor, type Tensor } from '@backwire/tensor';
import { joinTorch, py } from '@backwire/torch';
import { reportMistake } from '../shared/example.ts';
import { count, flagsHelp, parseFlags, text } from '../shared/flags.ts';
import { freePort, startPython } from '../shared/python.ts';

const flags = {
  from: text('SIDE', 'who computes the loss and starts the backward pass', 'node', ['node', 'python']),
  steps: count('steps to train for', 60),
} as const;

manualSeed(0);
const trunk = new nn.Sequential(new nn.Linear(2, 16), new nn.Tanh());
const parameters = (): RRef<Tensor>[] => trunk.parameters().map((parameter) => createRRef(parameter));
rpcFunction('half.trunk', (points: Tensor) => trunk.forward(points));
rpcFunction('half.trunk_parameters', parameters);

async function train(points: Tensor, inside: Tensor, steps: number): Promise<number[]> {
  const theirs = await rpcSync('python', py<() => RRef<Tensor>[]>('half.parameters'));
  const optimizer = await DistributedOptimizer.create(optim.SGD, [...parameters(), ...theirs], {
    lr: 0.5,
    momentum: 0.9,
  });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    await context(async (id) => {
      const chance = await rpcSync('python', py<(hidden: Tensor) => Tensor>('half.forward'), [trunk.forward(points)]);
      const loss = binaryCrossEntropy(chance, inside);
      await backward(id, [loss]);
      await optimizer.step(id);
      losses.push(loss.item());
    });
  }
  return losses;
}

// Points of a grid, and which of them lie in a circle.
const axis = Array.from({ length: 16 }, (_, i) => (2 * i) / 15 - 1);
const grid = axis.flatMap((x) => axis.map((y) => [x, y] as const));
const points = tensor(grid.map(([x, y]) => [x, y]));
const inside = tensor(grid.map(([x, y]) => [x * x + y * y < 0.5 ? 1 : 0]));

async function main(): Promise<void> {
  const options = parseFlags(process.argv.slice(2), flags);
  if (options === undefined) return void process.stdout.write(flagsHelp(flags));
  const { from, steps } = options;
  const port = await freePort();
  const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) };
  await using python = startPython(import.meta.dirname, 'half', env);
  const initMethod = `tcp://127.0.0.1:${port}`;
  await using agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, initMethod, trustNetwork: true });
  const losses =
    from === 'python'
      ? await rpcSync('python', py<typeof train>('half.train'), [points, inside, steps])
      : await train(points, inside, steps);
  for (let step = 0; step < steps; step += 10) {
    console.log(`step ${String(step).padStart(3)}  loss ${losses[step]?.toFixed(6)}`);
  }
  console.log(`after ${steps} steps, started from ${from}: loss ${losses.at(-1)?.toFixed(6)}`);
  await agent.shutdown();
  await python.ended;
}

await main().catch((error: unknown) => reportMistake('half-and-half', error));
