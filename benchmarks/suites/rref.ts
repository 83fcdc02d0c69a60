/** @file Remote references: what making and using one costs next to PyTorch, what a live one weighs, and how deletes travel. */
import { median } from '../measure.ts';
import { freePort, start, type Asked } from '../processes.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';
import { startTorchScript, type TorchProcess } from './torch-process.ts';

export const name = 'rref';

/** `remote()` calls of one burst. */
const BURST = 1_000;
/** What one live RRef may weigh on its owner. */
const BUDGET_BYTES = 500;

/** Samples of our side and of PyTorch's, a block a round. */
interface Taken {
  readonly ours: number[];
  readonly peer: number[];
}

export async function run(context: SuiteContext): Promise<Row[]> {
  const workers = await startWorkers();
  const torch = await startTorchScript(context, new URL('./rref_torch.py', import.meta.url));
  try {
    const rows: Row[] = [];
    const [use, burst] = await measure(context, workers.user, torch);
    const against = torch?.name ?? 'nothing';
    if (torch !== undefined) {
      const about = { better: 'lower', against } as const;
      rows.push(rowOf({ ...about, name: 'remote + toHere, p50', unit: 'µs' }, use.ours, use.peer));
      rows.push(rowOf({ ...about, name: `${BURST} remote() until confirmed`, unit: 'ms' }, burst.ours, burst.peer));
    } else context.log(`remote + toHere ${median(use.ours).toFixed(0)} µs, burst ${median(burst.ours).toFixed(1)} ms`);
    rows.push(...(await weigh(context.quick ? 100_000 : 1_000_000, workers)));
    return rows;
  } finally {
    await torch?.close();
    await workers.user.close();
    await workers.owner.close();
  }
}

async function measure(context: SuiteContext, user: Asked, torch: TorchProcess | undefined): Promise<[Taken, Taken]> {
  const rounds = context.quick ? 3 : 7;
  const use: Taken = { ours: [], peer: [] };
  const burst: Taken = { ours: [], peer: [] };
  // Until the compilers have seen everything often enough.
  for (let i = 0; i < 5; i++) {
    await user.ask('use', 2_000);
    await user.ask('burst', BURST);
  }
  await torch?.ask('use', 100);
  for (let round = 0; round < rounds; round++) {
    use.ours.push(median((await user.ask('use', 1_000)) as number[]));
    burst.ours.push((await user.ask('burst', BURST)) as number);
    if (torch === undefined) continue;
    use.peer.push(median((await torch.ask('use', 200)) as number[]));
    burst.peer.push((await torch.ask('burst', BURST)) as number);
  }
  return [use, burst];
}

/** Many live RRefs of one owner: what they weigh there, and in how many messages they are given back. */
async function weigh(count: number, { user, owner }: Workers): Promise<Row[]> {
  const before = (await owner.ask('bytes')) as number;
  await user.ask('hold', count);
  const bytes = (((await owner.ask('bytes')) as number) - before) / count;
  const messages = (await user.ask('release')) as number;
  const about = { better: 'lower', against: 'the budget' } as const;
  return [
    {
      ...about,
      name: `a live RRef, of ${count / 1_000} k on one owner`,
      unit: 'bytes',
      ours: bytes,
      peer: BUDGET_BYTES,
      ratio: bytes / BUDGET_BYTES,
    },
    {
      ...about,
      name: `messages to delete ${count / 1_000} k RRefs`,
      unit: 'messages',
      against: 'one each',
      ours: messages,
      peer: count,
      ratio: messages / count,
    },
  ];
}

interface Workers {
  readonly user: Asked;
  readonly owner: Asked;
}

async function startWorkers(): Promise<Workers> {
  const store = `tcp://127.0.0.1:${await freePort()}`;
  const program = new URL('./rref-worker.ts', import.meta.url);
  const env = (rank: number): Record<string, string> => ({
    BACKWIRE_SECRET: 'only this benchmark knows',
    BENCH_STORE: store,
    BENCH_RANK: String(rank),
  });
  const owner = await start(program, env(1));
  const user = await start(program, env(0));
  return { user, owner };
}
