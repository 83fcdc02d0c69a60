/** @file One of the workers of the data-parallel job. */
import { initRpc, processGroup } from '@backwire/rpc';
import { crossEntropy, fromBytes, manualSeed, nn, optim, tensor, type Tensor } from '@backwire/tensor';
import { serveAsks } from '../processes.ts';
import { batchOf, CLASSES, generator, permutation, PIXELS, readDigits, shard } from './examples.ts';

const HIDDEN = 128;

/** What a worker says of its training. */
export interface Replica {
  readonly samples: number;
  /** Of each pass. */
  readonly seconds: readonly number[];
  readonly loss: number;
  /** Milliseconds of a batch. */
  readonly phases: Readonly<Record<string, number>>;
}

const rank = Number(process.env['BENCH_RANK']);
const joining = initRpc({ name: `w${rank}`, rank, worldSize: 2, store: process.env['BENCH_STORE'] ?? '' });

serveAsks({ train, close: async () => (await joining).shutdown({ graceful: false }) });

interface Settings {
  readonly digits: number;
  /** How many times it trains with all of them. */
  readonly times: number;
  readonly workers: number;
  readonly batch: number;
  readonly lr: number;
}

class Net extends nn.Module {
  readonly hidden = new nn.Linear(PIXELS, HIDDEN);
  readonly output = new nn.Linear(HIDDEN, CLASSES);

  forward(x: Tensor): Tensor {
    return this.output.forward(this.hidden.forward(x).relu());
  }
}

async function train({ digits, times, workers, batch, lr }: Settings): Promise<Replica> {
  await joining;
  manualSeed(0);
  const group = processGroup();
  const model = new nn.DistributedDataParallel(new Net(), { group });
  const optimizer = new optim.SGD(model.parameters(), { lr, momentum: 0.9 });
  const own = shard(readDigits('train'), rank, workers, digits);
  const random = generator(rank);
  // The pixels of a batch are gone before the next one is read.
  const room = new Float32Array(batch * PIXELS);
  const phases = { data: 0, forward: 0, backward: 0, step: 0 };
  // Both begin together.
  await model.synchronize();
  let last = performance.now();
  const lap = (phase: keyof typeof phases): void => {
    const now = performance.now();
    phases[phase] += now - last;
    last = now;
  };
  let value = 0;
  let batches = 0;
  const seconds: number[] = [];
  for (let pass = 0; pass < times; pass++) {
    const began = performance.now();
    const order = permutation(own.count, random);
    for (let from = 0; from < order.length; from += batch, batches++) {
      const { x, y, count } = batchOf(own, order.subarray(from, from + batch), room);
      const images = fromBytes(new Uint8Array(x.buffer, 0, x.byteLength), [count, PIXELS], 'float32');
      const labels = tensor(y, { dtype: 'int64' });
      lap('data');
      optimizer.zeroGrad();
      const loss = crossEntropy(model.forward(images), labels);
      value = loss.item();
      lap('forward');
      await model.backward(loss);
      lap('backward');
      optimizer.step();
      for (const done of [images, labels, loss]) done.dispose();
      lap('step');
    }
    seconds.push((performance.now() - began) / 1_000);
  }
  const perBatch = Object.fromEntries(Object.entries(phases).map(([phase, ms]) => [phase, ms / batches]));
  return { samples: own.count * times, seconds, loss: value, phases: perBatch };
}
