/** @file A trainer: it holds a share of the digits and trains the server's model with them. */
import { crossEntropy, fromBytes, rpcName, type Parameter, type Tensor, tensor, optim } from '@backwire/tensor';
import { currentAgent, rpcClass, rpcFunction, rpcOneway } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { backward, context, DistributedOptimizer } from '@backwire/dist-autograd';
import { profile, recordFunction } from '@backwire/profiler';
import { type Batch, batchOf, type Digits, PIXELS, readDigits, shard } from '../shared/mnist.ts';
import { generator, permutation } from '../shared/random.ts';
import type { Step } from '../shared/progress.ts';
import { PHASES, type EpochReport, type Phase } from './reports.ts';
import type { Net } from './net.ts';
import type { TrainOptions } from './options.ts';
import { COORDINATOR } from './roles.ts';

/** Batches of the first epoch that are profiled when not the whole run is. */
const PROFILED_BATCHES = 8;
/** Batches between two reports of progress. */
const REPORT_EVERY = 10;

/** Told the coordinator by the trainers; it sets what is done with it. */
let listener: (name: string, step: Step) => void = () => undefined;
export function onProgress(fn: typeof listener): void {
  listener = fn;
}
const reportProgress = rpcFunction('examples/progress', (name: string, step: Step) => listener(name, step));

/** What a trainer is told. */
export type TrainerOptions = Pick<TrainOptions, 'epochs' | 'batchSize' | 'trainers' | 'seed' | 'lr' | 'profile'> & {
  readonly data: string | null;
  readonly limit: number | null;
};

export class Trainer {
  static readonly [rpcName] = 'examples/Trainer';
  private readonly options: TrainerOptions;
  private readonly index: number;
  private readonly net: RRef<Net>;
  private readonly parameters: readonly RRef<Parameter>[];
  private readonly digits: Digits;
  private optimizer: Promise<DistributedOptimizer> | undefined;

  /** `index` counts the shares of the digits from 0 to `options.trainers` - 1; `net` and `parameters` live on the server. */
  constructor(options: TrainerOptions, index: number, net: RRef<Net>, parameters: readonly RRef<Parameter>[]) {
    this.options = options;
    this.index = index;
    this.net = net;
    this.parameters = parameters;
    const all = readDigits('train', options.data ?? undefined);
    this.digits = shard(all, index, options.trainers, options.limit ?? all.count);
  }

  /** One pass over this trainer's digits, in an order of its own. */
  async epoch(epoch: number): Promise<EpochReport> {
    const total = Math.ceil(this.digits.count / this.options.batchSize);
    const profiled = this.options.profile ? total : epoch === 0 ? Math.min(PROFILED_BATCHES, total) : 0;
    return this.part(epoch, 0, total, profiled);
  }

  /** The batches `first` to `end` - 1 of one pass, of which the first `profiled` are profiled. */
  async part(epoch: number, first: number, end: number, profiled = 0): Promise<EpochReport> {
    const { seed, batchSize } = this.options;
    const order = permutation(this.digits.count, generator(seed, epoch, this.index));
    const total = Math.ceil(order.length / batchSize);
    const rows = (batch: number): Uint32Array => order.subarray(batch * batchSize, (batch + 1) * batchSize);
    // For the pixels of one batch after the other: in fresh memory for each they would make V8 collect all of its heap every few batches.
    const room = new Float32Array(batchSize * PIXELS);
    const losses = new Float64Array(2 * (end - first));
    const forwardMs = new Float64Array(end - first);
    const phases = Object.fromEntries(PHASES.map((phase) => [phase, 0])) as Record<Phase, number>;
    const batches = async (from: number, to: number): Promise<void> => {
      for (let batch = from; batch < to; batch++) {
        const { loss, forward } = await this.step(rows(batch), room, phases);
        losses.set([epoch + (batch + 1) / total, loss], 2 * (batch - first));
        forwardMs[batch - first] = forward;
        if ((batch + 1) % REPORT_EVERY === 0 || batch + 1 === total) this.tell(epoch * total + batch + 1, total, loss);
      }
    };
    let trace = new Uint8Array();
    let table = '';
    if (profiled > 0) {
      const { profile: found } = await profile(() => batches(first, first + profiled));
      trace = new TextEncoder().encode(JSON.stringify(found.toChromeTrace()));
      if (this.options.profile) table = found.keyAverages().table({ sortBy: 'total', limit: 20 });
    }
    await batches(first + profiled, end);
    const samples = Math.min(end * batchSize, order.length) - first * batchSize;
    return { samples, losses, phases, forwardMs, trace, table };
  }

  /** Forward through the server, backward through the call, one step of the optimizer on the server. */
  private async step(
    rows: Uint32Array,
    room: Float32Array<ArrayBuffer>,
    phases: Record<Phase, number>,
  ): Promise<{ loss: number; forward: number }> {
    const { net } = this;
    this.optimizer ??= DistributedOptimizer.create(optim.SGD, this.parameters, { lr: this.options.lr, momentum: 0.9 });
    const optimizer = await this.optimizer;
    const clock = new Stopwatch(phases);
    // The phases have names in the profile, and are only measured without one.
    const phase = <T>(name: Phase, work: () => T): T => recordFunction(name, work);
    const { x, y } = phase('data', () => toTensors(batchOf(this.digits, rows, room)));
    clock.lap('data');
    return context(async (id) => {
      const logits = await phase('forward', () => net.rpcAsync().forward(x));
      const forward = clock.lap('forward');
      const loss = phase('loss', () => crossEntropy(logits, y));
      const value = loss.item();
      clock.lap('loss');
      await phase('backward', () => backward(id, [loss]));
      clock.lap('backward');
      await phase('step', () => optimizer.step(id));
      clock.lap('step');
      for (const done of [x, y, logits, loss]) done.dispose();
      return { loss: value, forward };
    });
  }

  private tell(done: number, perEpoch: number, loss: number): void {
    rpcOneway(COORDINATOR, reportProgress, [
      currentAgent().name,
      { done, total: perEpoch * this.options.epochs, value: loss },
    ]);
  }
}
rpcClass(Trainer, { methods: ['epoch', 'part'] });

/** Images [n, 784] and labels [n]. */
export function toTensors({ x, y, count }: Batch): { x: Tensor; y: Tensor } {
  const bytes = new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
  return { x: fromBytes(bytes, [count, PIXELS], 'float32'), y: tensor(y, { dtype: 'int64' }) };
}

class Stopwatch {
  private last = performance.now();
  private readonly phases: Record<Phase, number>;

  constructor(phases: Record<Phase, number>) {
    this.phases = phases;
  }

  /** Books the time since the last lap, in milliseconds. */
  lap(phase: Phase): number {
    const now = performance.now();
    const spent = now - this.last;
    this.last = now;
    this.phases[phase] += spent;
    return spent;
  }
}
