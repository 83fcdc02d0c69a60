/** @file What the profiler costs: nothing while it is present and off, little while a profile or metrics are on. */
import { median } from '../measure.ts';
import { freePort, start, type Asked } from '../processes.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'profiler';

const CALLS = 2_000;
const BURST = 10_000;
/** So that nothing is collected while allocations are counted. */
const NO_SCAVENGE = '--max-semi-space-size=256';

/** The pairs of processes; each serves one kind of call. */
interface Pairs {
  /** No extension at all. */
  readonly without: Pair;
  /** `profiling()` among the extensions, and no profile. */
  readonly off: Pair;
  /** The same, inside `profile`. */
  readonly on: Pair;
  /** Without the extension, with histograms on both sides. */
  readonly metrics: Pair;
}

interface Pair {
  readonly caller: Asked;
  readonly callee: Asked;
}

export async function run(context: SuiteContext): Promise<Row[]> {
  const pairs: Pairs = {
    without: await startPair('absent'),
    off: await startPair('present'),
    on: await startPair('present'),
    metrics: await startPair('absent'),
  };
  try {
    for (const side of [pairs.metrics.caller, pairs.metrics.callee]) await side.ask('measure');
    return await measure(context, pairs);
  } finally {
    for (const { caller, callee } of Object.values(pairs) as Pair[]) {
      await caller.close();
      await callee.close();
    }
  }
}

async function measure(context: SuiteContext, { without, off, on, metrics }: Pairs): Promise<Row[]> {
  const rounds = context.quick ? 5 : 15;
  const p50 = async ({ caller }: Pair, what = 'latency'): Promise<number> =>
    median((await caller.ask(what, CALLS)) as number[]);
  const burst = async ({ caller }: Pair): Promise<number> => (await caller.ask('throughput', BURST)) as number;
  // Until the compilers have seen everything often enough.
  for (let i = 0; i < 8; i++) {
    for (const pair of [without, off, on, metrics]) {
      await p50(pair);
      await burst(pair);
    }
    await p50(on, 'profiled');
  }
  const bare: number[][] = [[], []];
  const idle: number[][] = [[], []];
  const busy: number[][] = [[], []];
  const counted: number[][] = [[], []];
  for (let round = 0; round < rounds; round++) {
    bare[0]?.push(await p50(without));
    idle[0]?.push(await p50(off));
    busy[0]?.push(await p50(on, 'profiled'));
    counted[0]?.push(await p50(metrics));
    bare[1]?.push(await burst(without));
    idle[1]?.push(await burst(off));
    counted[1]?.push(await burst(metrics));
  }
  const hooks = ((await off.caller.ask('hooks')) as number) + ((await off.callee.ask('hooks')) as number);
  context.log(`hook calls of the profiler that was off: ${hooks}`);
  const lower = { unit: 'µs', better: 'lower', against: 'no profiler' } as const;
  const higher = { unit: 'calls/s', better: 'higher', against: 'no profiler' } as const;
  const [bareTimes = [], bareRates = []] = bare;
  const rows = [
    rowOf({ ...lower, name: 'a call, p50, profiler present and off' }, idle[0] ?? [], bareTimes),
    rowOf({ ...higher, name: 'calls at once, profiler present and off' }, idle[1] ?? [], bareRates),
    rowOf({ ...lower, name: 'a call, p50, inside a profile' }, busy[0] ?? [], bareTimes),
    rowOf({ ...lower, name: 'a call, p50, with histograms' }, counted[0] ?? [], bareTimes),
    rowOf({ ...higher, name: 'calls at once, with histograms' }, counted[1] ?? [], bareRates),
  ];
  const heap = async ({ caller }: Pair): Promise<number> => {
    const taken: number[] = [];
    for (let i = 0; i < 15; i++) taken.push((await caller.ask('allocated', CALLS)) as number);
    return median(taken);
  };
  const [ours, peer] = [await heap(off), await heap(without)];
  rows.push({
    name: 'heap taken by a call, profiler present and off',
    unit: 'bytes',
    better: 'lower',
    against: 'no profiler',
    ours,
    peer,
    ratio: ours / peer,
  });
  return rows;
}

async function startPair(profiler: 'present' | 'absent'): Promise<Pair> {
  const program = new URL('./profiler-worker.ts', import.meta.url);
  const env = {
    BENCH_STORE: `tcp://127.0.0.1:${await freePort()}`,
    BENCH_PROFILER: profiler,
    NODE_OPTIONS: NO_SCAVENGE,
  };
  const [caller, callee] = await Promise.all([
    start(program, { ...env, BENCH_RANK: '0' }),
    start(program, { ...env, BENCH_RANK: '1' }),
  ]);
  return { caller, callee };
}
