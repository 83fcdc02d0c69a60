/** @file Runs one contract program in a process of its own: `drive.ts <programs.ts> <program> <name> <rank> <world size>`. */
import { distAutograd } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import { initRpc, shutdown } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { manualSeed, rand, tensor, type Tensor } from '@backwire/tensor';
import type * as Programs from './programs.ts';

const [path = '', program = '', name = '', rank = '0', worldSize = '1'] = process.argv.slice(2);
const programs = (await import(path)) as typeof Programs;

/** Batches of a problem the network can learn: the label is the half of the picture that is brighter. */
async function* batches(count: number): AsyncGenerator<{ x: Tensor; y: Tensor }> {
  manualSeed(1);
  for (let i = 0; i < count; i++) {
    const labels = Array.from({ length: 32 }, (_, row) => (row + i) % 2);
    const pixels = rand([32, 784]).mul(0.1);
    const marks = tensor(
      labels.map((label) => Array.from({ length: 784 }, (_, pixel) => (pixel < 392 === (label === 0) ? 1 : 0))),
    );
    yield { x: pixels.add(marks), y: tensor(labels, { dtype: 'int64' }) };
  }
}

const init = async (): Promise<void> => {
  await initRpc({
    name,
    rank: Number(rank),
    worldSize: Number(worldSize),
    extensions: [rrefs(), distAutograd(), profiling()],
  });
};

switch (program) {
  case 'hello':
    await programs.hello(); // starts and stops its own agent
    console.log('hello done');
    break;
  case 'serve':
    await init();
    await shutdown();
    break;
  case 'train': {
    await init();
    console.log('first', await programs.train(batches(1)));
    console.log('last', await programs.train(batches(30)));
    await shutdown();
    break;
  }
  case 'stub':
    await init();
    console.log('stub', JSON.stringify((await programs.viaStub()).toArray()));
    await shutdown();
    break;
  default:
    throw new Error(`no program '${program}'`);
}
