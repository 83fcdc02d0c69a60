/** @file Distributed autograd: one hop with its context next to PyTorch, a split model next to a whole one, and many contexts at once. */
import { median } from '../measure.ts';
import { freePort, start, type Asked } from '../processes.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';
import { startTorchScript } from './torch-process.ts';

export const name = 'autograd';

/** Contexts open at once, next to none. */
const CROWD = 9_999;
/** Features of the split model's layers. */
const WIDTH = 512;

export async function run(context: SuiteContext): Promise<Row[]> {
  const store = `tcp://127.0.0.1:${await freePort()}`;
  const program = new URL('./autograd-worker.ts', import.meta.url);
  const env = (rank: number): Record<string, string> => ({
    BACKWIRE_SECRET: 'only this benchmark knows',
    BENCH_STORE: store,
    BENCH_RANK: String(rank),
  });
  const helper = await start(program, env(1));
  const trainer = await start(program, env(0));
  try {
    return [...(await hops(context, trainer)), await halves(context, trainer), await crowd(context, trainer)];
  } finally {
    await trainer.close();
    await helper.close();
  }
}

async function hops(context: SuiteContext, trainer: Asked): Promise<Row[]> {
  const torch = await startTorchScript(context, new URL('./autograd_torch.py', import.meta.url));
  for (let i = 0; i < 5; i++) await trainer.ask('hop', 1_000);
  if (torch === undefined) {
    context.log(`one hop: ${median((await trainer.ask('hop', 1_000)) as number[]).toFixed(0)} µs`);
    return [];
  }
  const ours: number[] = [];
  const theirs: number[] = [];
  await torch.ask('hop', 50);
  for (let round = 0; round < (context.quick ? 3 : 7); round++) {
    ours.push(median((await trainer.ask('hop', 1_000)) as number[]));
    theirs.push(median((await torch.ask('hop', 100)) as number[]));
  }
  await torch.close();
  return [
    rowOf({ name: 'context, one hop, backward', unit: 'µs', better: 'lower', against: torch.name }, ours, theirs),
  ];
}

async function halves(context: SuiteContext, trainer: Asked): Promise<Row> {
  const split: number[] = [];
  const whole: number[] = [];
  for (let round = 0; round < (context.quick ? 3 : 7) + 1; round++) {
    const a = median((await trainer.ask('split', 12, WIDTH)) as number[]);
    const b = median((await trainer.ask('whole', 12, WIDTH)) as number[]);
    // The first round warms up.
    if (round === 0) continue;
    split.push(a);
    whole.push(b);
  }
  const about = {
    name: 'step of a model on two workers',
    unit: 'ms',
    better: 'lower',
    against: 'one process',
  } as const;
  return rowOf(about, split, whole);
}

async function crowd(context: SuiteContext, trainer: Asked): Promise<Row> {
  const many: number[] = [];
  const one: number[] = [];
  for (let round = 0; round < (context.quick ? 2 : 5); round++) {
    one.push(median((await trainer.ask('crowd', 0, 1_000)) as number[]));
    many.push(median((await trainer.ask('crowd', CROWD, 1_000)) as number[]));
  }
  const about = { name: `context, with ${CROWD} others`, unit: 'µs', better: 'lower', against: 'alone' } as const;
  return rowOf(about, many, one);
}
