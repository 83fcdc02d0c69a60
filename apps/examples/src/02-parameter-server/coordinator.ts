/** @file The coordinator: makes the model on the server, sends the trainers off, tests the model and writes the results. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeBackend, noGrad, saveSafetensors } from '@backwire/tensor';
import { currentAgent, rpcAsync, rpcFunction } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { RemoteModule } from '@backwire/dist-autograd';
import { type ChromeTrace, mergeChromeTraces, profile, writeChromeTrace } from '@backwire/profiler';
import { chartSvg, type Series } from '../shared/chart.ts';
import { batchOf, type Digits, readDigits } from '../shared/mnist.ts';
import { progress, type Progress } from '../shared/progress.ts';
import { Net } from './net.ts';
import type { TrainOptions } from './options.ts';
import { type EpochReport, pairs, type Summary, summaryTable, sumUp, type Traffic } from './reports.ts';
import { nameOf, SERVER, worldSize } from './roles.ts';
import { onProgress, toTensors, Trainer, type TrainerOptions } from './trainer.ts';

/** Digits in one call while testing. */
const TEST_BATCH = 1_000;
/** Bins per epoch of the loss curve: single batches are too noisy to read. */
const LOSS_BINS = 50;

/** What a worker's agent has counted. */
export const traffic = rpcFunction('examples/traffic', (): Traffic => {
  const metrics = currentAgent().metrics();
  return { calls: Number(metrics['calls_sent'] ?? 0), bytesSent: Number(metrics['bytes_sent'] ?? 0) };
});

/** The whole run. Prints progress and results on standard output. */
export async function coordinate(options: TrainOptions): Promise<Summary> {
  const names = Array.from({ length: options.trainers }, (_, i) => nameOf(i + 2));
  const test = readDigits('test', options.data);
  console.log(describeBackend());
  const bars = progress(names, process.stdout);
  onProgress((name, step) => bars.update(name, step));
  const net = await RemoteModule.create(SERVER, Net, [options.seed]);
  const parameters = await net.remoteParameters();
  const share: TrainerOptions = { ...options, data: options.data ?? null, limit: options.limit ?? null };
  const trainers = names.map((name, index) => remote(name, Trainer, [share, index, net.getModuleRRef(), parameters]));
  try {
    await Promise.all(trainers.map((trainer) => trainer.confirmed()));
    return await run(options, net, trainers, test, bars);
  } finally {
    bars.stop();
  }
}

async function run(
  options: TrainOptions,
  net: RemoteModule<Net>,
  trainers: readonly RRef<Trainer>[],
  test: Digits,
  bars: Progress,
): Promise<Summary> {
  const reports: EpochReport[][] = [];
  const accuracy: number[] = [];
  const secondsByEpoch: number[] = [];
  const { profile: tested } = await profile(() => testAccuracy(net, test, TEST_BATCH));
  for (let epoch = 0; epoch < options.epochs; epoch++) {
    const began = performance.now();
    reports.push(await Promise.all(trainers.map((trainer) => trainer.rpcAsync({ timeoutMs: 0 }).epoch(epoch))));
    secondsByEpoch.push((performance.now() - began) / 1_000);
    accuracy.push(await testAccuracy(net, test));
    bars.say(`epoch ${epoch + 1} of ${options.epochs}: test accuracy ${((accuracy.at(-1) ?? 0) * 100).toFixed(2)} %`);
  }
  bars.stop();
  const workers = Array.from({ length: worldSize(options.trainers) }, (_, rank) => nameOf(rank));
  const counted = await Promise.all(workers.map((name) => rpcAsync(name, traffic)));
  const tables = reports.flatMap((epoch) => epoch.map(({ table }) => table)).filter((table) => table !== '');
  if (tables.length > 0) console.log(`\n${nameOf(2)}, the last epoch:\n${tables.at(-options.trainers) ?? ''}`);
  const traces = [tested.toChromeTrace(), ...reports.flat().flatMap(traceOf)];
  return writeResults(options, net, { epochs: reports, accuracy, secondsByEpoch, counted, traces });
}

/** What came out of a run. */
export interface Results {
  /** The reports of all trainers, epoch by epoch. */
  readonly epochs: readonly (readonly EpochReport[])[];
  /** The share of the test digits that were right after each epoch. */
  readonly accuracy: readonly number[];
  /** What each epoch's training took. */
  readonly secondsByEpoch: readonly number[];
  readonly counted: readonly Traffic[];
  /** None = no trace is written. */
  readonly traces: readonly ChromeTrace[];
}

/** Writes chart, trace, weights and summary to `options.out`, and prints the summary. */
export async function writeResults(options: TrainOptions, net: RemoteModule<Net>, results: Results): Promise<Summary> {
  const { epochs, accuracy, secondsByEpoch, counted, traces } = results;
  const summary = sumUp(options, epochs, accuracy, secondsByEpoch, counted);
  mkdirSync(options.out, { recursive: true });
  const write = (file: string, content: string | Uint8Array): void => writeFileSync(join(options.out, file), content);
  write(
    'training.svg',
    chart(epochs, accuracy, (index) => (options.elastic ? 'all trainers' : nameOf(index + 2))),
  );
  if (traces.length > 0) await writeChromeTrace(join(options.out, 'trace.json'), mergeChromeTraces(traces));
  write('weights.safetensors', saveSafetensors(new Map(await net.getModuleRRef().rpcSync().weights())));
  write('summary.json', `${JSON.stringify(summary, null, 2)}\n`);
  const trace = traces.length > 0 ? 'trace.json (for ui.perfetto.dev), ' : '';
  console.log(`\n${summaryTable(summary)}\n\n${options.out}/: training.svg, ${trace}weights.safetensors, summary.json`);
  return summary;
}

/** The share of the first `count` test digits that the model on the server gets right. */
export async function testAccuracy(net: RemoteModule<Net>, test: Digits, count = test.count): Promise<number> {
  let right = 0;
  for (let from = 0; from < count; from += TEST_BATCH) {
    const rows = Uint32Array.from({ length: Math.min(TEST_BATCH, count - from) }, (_, i) => from + i);
    const { x, y } = toTensors(batchOf(test, rows));
    const logits = await noGrad(() => net.forward(x));
    const guesses = await logits.argMax(1).data('int64');
    const labels = await y.data('int64');
    right += guesses.reduce((sum, guess, i) => sum + (guess === labels[i] ? 1 : 0), 0);
    for (const done of [x, y, logits]) done.dispose();
  }
  return right / count;
}

function chart(
  reports: readonly (readonly EpochReport[])[],
  accuracy: readonly number[],
  seriesName: (index: number) => string,
): string {
  const trainers = reports[0]?.length ?? 0;
  const losses = Array.from({ length: trainers }, (_, index): Series => {
    const points = reports.flatMap((epoch) => pairs(epoch[index]?.losses ?? new Float64Array()));
    return { name: seriesName(index), points: binned(points, LOSS_BINS) };
  });
  const points = accuracy.map((share, epoch): [number, number] => [epoch + 1, share]);
  return chartSvg([
    { title: 'Training loss', xLabel: 'epoch', yLabel: 'cross entropy', series: losses },
    {
      title: 'Test accuracy',
      xLabel: 'epoch',
      yLabel: 'digits right',
      percent: true,
      series: [{ name: 'test', points, marks: true }],
    },
  ]);
}

/** What a trainer profiled in an epoch, if it did. */
function traceOf({ trace }: EpochReport): ChromeTrace[] {
  return trace.length === 0 ? [] : [JSON.parse(new TextDecoder().decode(trace)) as ChromeTrace];
}

/** Means over `perUnit` equal parts of each unit of x. */
function binned(points: readonly (readonly [number, number])[], perUnit: number): [number, number][] {
  const bins = new Map<number, { sum: number; count: number }>();
  for (const [x, y] of points) {
    const bin = Math.ceil(x * perUnit - 1e-9);
    const found = bins.get(bin) ?? { sum: 0, count: 0 };
    bins.set(bin, { sum: found.sum + y, count: found.count + 1 });
  }
  return [...bins].map(([bin, { sum, count }]) => [bin / perUnit, sum / count]);
}
