/** @file A language model whose table of words and decoder are on a server: 03-rnn-remote-embedding. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readCorpus } from './examples.ts';
import { type Job, runExample, runPlain, runPython, type Run } from './job.ts';

const SIZES = { vocabulary: 1_000, embedding: 64, hidden: 96, columns: 16, steps: 16, lr: 0.005 } as const;

interface Summary {
  readonly wordsPerSecond: number;
  readonly epochs: readonly { readonly trainPerplexity: number }[];
}

export const embedding: Job = {
  name: 'embedding',
  sample: 'words',
  batch: SIZES.columns * SIZES.steps,
  amount: { quick: 4, full: 8, cpu: 1 },
  async ours(backend, chapters, flags) {
    const args = Object.entries({ ...SIZES, chapters, epochs: 1, length: 1 }).flatMap(([name, n]) => [`--${name}`, n]);
    return runOf(await runExample<Summary>('03-rnn-remote-embedding', args, { backend, flags }));
  },
  torch: (python, chapters) =>
    withText(chapters, async (file) =>
      runOf((await runPython(python, 'embedding.py', [file, JSON.stringify(SIZES)])) as Run & Summary),
    ),
  plain: (backend, chapters) => runPlain('embedding', backend, { ...SIZES, chapters }),
  roles: [
    { role: 'server', sign: /optim\/adagrad\.ts$|rpc\/src\/server\/call-(runner|reader)\.ts$/ },
    { role: 'trainer', sign: /03-rnn-remote-embedding\/main\.ts$/ },
  ],
};

/** The loss is that of all batches, with those before anything was learnt. */
function runOf({ wordsPerSecond, epochs }: Summary): Run {
  return { samplesPerSecond: wordsPerSecond, finalLoss: Math.log(epochs.at(-1)?.trainPerplexity ?? Number.NaN) };
}

/** The numbers of the words in a file, for a program that does not read the chapters itself. */
async function withText(chapters: number, use: (file: string) => Promise<Run>): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'training-'));
  try {
    const { words, train, valid } = readCorpus(chapters, SIZES.vocabulary);
    const file = join(folder, 'text.json');
    writeFileSync(file, JSON.stringify({ vocabulary: words.length, train: [...train], valid: [...valid] }));
    return await use(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
