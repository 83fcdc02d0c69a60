/**
 * @file A language model whose word table lives on a server: distributed autograd sends it sparse gradients.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/03-rnn-remote-embedding/main.ts
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { backendName, crossEntropy, noGrad, scope, tensor, type Tensor } from '@backwire/tensor';
import { backward, context } from '@backwire/dist-autograd';
import { chartSvg } from '../shared/chart.ts';
import { runExample } from '../shared/example.ts';
import { count, type OptionsOf, positive, prepareOutput, text } from '../shared/flags.ts';
import { progress } from '../shared/progress.ts';
import { generator } from '../shared/random.ts';
import { grouped, textTable, timeText } from '../shared/table.ts';
import { type Corpus, readCorpus, sentence, tokenize, UNKNOWN, windows } from './corpus.ts';
import { LanguageModel, Optimizers, SERVER, type State } from './model.ts';

/** Below 1, likely words become likelier. */
const TEMPERATURE = 0.8;

const flags = {
  epochs: count('passes over the text', 3, { most: 1_000 }),
  chapters: count('chapters of Moby Dick that are read', 12, { most: 135 }),
  vocabulary: count('rows of the word table', 1_000, { least: 10, most: 20_000 }),
  embedding: count('columns of the word table', 64, { most: 4096 }),
  hidden: count('units of the LSTM', 96, { most: 4096 }),
  columns: count('parts of the text that are read side by side', 16, { most: 1024 }),
  steps: count('words until a step of the optimizers', 16, { most: 1024 }),
  seed: count('of weights and samples', 0, { least: 0 }),
  lr: positive('learning rate', 0.005),
  prompt: text('WORDS', 'what the sample starts with', 'the white whale'),
  length: count('words in the sample', 40, { most: 10_000 }),
  out: text('DIR', 'where chart and summary go', 'out'),
} as const;
type Options = OptionsOf<typeof flags>;

await runExample({
  program: import.meta.filename,
  name: 'rnn-remote-embedding',
  about: `
usage: node --import tsx --conditions=@backwire/source apps/examples/src/03-rnn-remote-embedding/main.ts [flags]

Trains a language model on chapters of Moby Dick. The table of words and the decoder live on a server, the LSTM between them on the
trainer; one backward pass goes through all three, and the table gets gradients of the words that were read and no others. Shows the
perplexity falling (how many words the model hesitates between) and lets the model write.`,
  flags,
  workers: () => ['trainer', SERVER],
  check: ({ out, chapters, vocabulary }) => {
    readCorpus(chapters, vocabulary);
    prepareOutput(out);
  },
  run,
});

interface Epoch {
  readonly trainPerplexity: number;
  readonly validPerplexity: number;
}

async function run(options: Options): Promise<void> {
  const corpus = readCorpus(options.chapters, options.vocabulary);
  const model = await LanguageModel.create({ ...options, vocabulary: corpus.words.length }, options.seed);
  const optimizers = await Optimizers.create(model, options.lr);
  const perEpoch = [...windows(corpus.train, options.columns, options.steps)].length;
  const bars = progress(['trainer'], process.stdout, { value: 'perplexity' });
  const curve: [number, number][] = [];
  const before = await evaluate(model, corpus.valid, options);
  bars.say(`${grouped(corpus.train.length)} words to learn from; before training, perplexity ${before.toFixed(1)}`);
  const epochs: Epoch[] = [];
  const began = performance.now();
  for (let epoch = 0; epoch < options.epochs; epoch++) {
    let state = model.start(options.columns);
    let sum = 0;
    let batch = 0;
    for (const { inputs, targets, steps } of windows(corpus.train, options.columns, options.steps)) {
      const trained = await train(model, optimizers, idsOf(inputs, steps, options.columns), targets, state);
      state = trained.state;
      sum += trained.loss;
      batch++;
      curve.push([epoch + batch / perEpoch, trained.loss]);
      const recent = Math.exp(meanOf(curve.slice(-50).map(([, loss]) => loss)));
      bars.update('trainer', { done: epoch * perEpoch + batch, total: perEpoch * options.epochs, value: recent });
    }
    const validPerplexity = await evaluate(model, corpus.valid, options);
    epochs.push({ trainPerplexity: Math.exp(sum / batch), validPerplexity });
    bars.say(
      `epoch ${epoch + 1} of ${options.epochs}: perplexity ${validPerplexity.toFixed(1)} on text it has not seen`,
    );
  }
  bars.stop();
  const seconds = (performance.now() - began) / 1000;
  const sample = await write(model, corpus, options);
  model.dispose();
  const summary = {
    backend: backendName(),
    words: corpus.train.length,
    vocabulary: corpus.words.length,
    before,
    epochs,
    seconds,
    wordsPerSecond: (corpus.train.length * options.epochs) / seconds,
    sample,
  };
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, 'perplexity.svg'), chart(curve, [before, ...epochs.map((e) => e.validPerplexity)]));
  writeFileSync(join(options.out, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  const rows = epochs.map((e, i) => [String(i + 1), e.trainPerplexity.toFixed(1), e.validPerplexity.toFixed(1)]);
  console.log(
    `\n${textTable(['epoch', 'perplexity', 'on unseen text'], [['before', '', before.toFixed(1)], ...rows])}`,
  );
  console.log(`\n${timeText(seconds * 1000)}, ${grouped(summary.wordsPerSecond)} words a second`);
  console.log(`\nIt writes: ${sample}\n\n${options.out}/: perplexity.svg, summary.json`);
}

/** One step: forward over two workers, backward over two workers, every parameter stepped where it is. */
async function train(
  model: LanguageModel,
  optimizers: Optimizers,
  ids: Tensor,
  targets: Int32Array,
  state: State,
): Promise<{ loss: number; state: State }> {
  // In a scope, so that the next batch finds the memory of this one: left to the collector, each would lie in other memory.
  return scope(() =>
    context(async (id) => {
      const [logits, next] = await model.forward(ids, state);
      const loss = crossEntropy(logits, tensor(targets, { dtype: 'int64' }));
      await backward(id, [loss]);
      await optimizers.step(id);
      // The next batch goes on from here, but its gradients do not go back further than its own beginning.
      return { loss: loss.item(), state: [next[0].detach(), next[1].detach()] };
    }),
  );
}

/** The perplexity on `words`: e to the mean loss. */
async function evaluate(model: LanguageModel, words: Int32Array, { columns, steps }: Options): Promise<number> {
  let state = model.start(columns);
  let sum = 0;
  let total = 0;
  for (const window of windows(words, columns, steps)) {
    const ids = idsOf(window.inputs, window.steps, columns);
    const [logits, next] = await noGrad(() => model.forward(ids, state));
    sum += crossEntropy(logits, tensor(window.targets, { dtype: 'int64' })).item() * window.targets.length;
    total += window.targets.length;
    state = next;
  }
  return Math.exp(sum / total);
}

/** Lets the model go on from the prompt, a word at a time, drawn by its own chances. */
async function write(model: LanguageModel, corpus: Corpus, { prompt, length, seed }: Options): Promise<string> {
  const random = generator(seed, 3);
  const written = tokenize(prompt);
  let state = model.start(1);
  let at = 0;
  while (written.length < length) {
    const number = Math.max(corpus.words.indexOf(written[at] ?? ''), UNKNOWN);
    const [logits, next] = await noGrad(() => model.forward(idsOf(Int32Array.of(number), 1, 1), state));
    state = next;
    at++;
    // The prompt is read first; and the model may not write that it does not know the word.
    if (at < written.length) continue;
    const chances = await logits
      .mul(1 / TEMPERATURE)
      .softmax(1)
      .data('float32');
    chances[UNKNOWN] = 0;
    written.push(corpus.words[drawn(chances, random())] ?? '');
  }
  return sentence(written);
}

function drawn(chances: Float32Array, at: number): number {
  let left = at * chances.reduce((sum, chance) => sum + chance, 0);
  const found = chances.findIndex((chance) => (left -= chance) < 0);
  return found === -1 ? chances.length - 1 : found;
}

/** Word numbers [steps, columns]. */
function idsOf(numbers: Int32Array, steps: number, columns: number): Tensor {
  return tensor(numbers, { dtype: 'int32', shape: [steps, columns] });
}

function chart(curve: readonly (readonly [number, number])[], valid: readonly number[]): string {
  const bin = Math.max(1, Math.floor(curve.length / 100));
  const points = Array.from({ length: Math.floor(curve.length / bin) }, (_, i): [number, number] => {
    const part = curve.slice(i * bin, (i + 1) * bin);
    return [part.at(-1)?.[0] ?? 0, Math.exp(meanOf(part.map(([, loss]) => loss)))];
  });
  return chartSvg([
    {
      title: 'How many words the model hesitates between',
      xLabel: 'epoch',
      yLabel: 'perplexity',
      series: [
        { name: 'training', points },
        { name: 'unseen text', points: valid.map((value, epoch) => [epoch, value]), marks: true },
      ],
    },
  ]);
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
