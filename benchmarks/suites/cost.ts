/** @file What each part of the way of a call costs: against raw sockets, bare frames, and the plain empty call. */
import { FULL, median, QUICK, type Contestant } from '../measure.ts';
import { startBackwire } from '../rpc/backwire.ts';
import { OURS, RAW_UNIX } from '../rpc/contestants.ts';
import { startFrames } from '../rpc/frames.ts';
import { startRaw } from '../rpc/raw.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'cost';

const FRAMES = 'bare frames';
const HOOKS = 'Backwire with an extension';
const PLAIN = 'nothing';
const PLAIN_CALL = 'the plain empty call';
/** Parts that a call of the same two workers can have or not; the last one stays on once it was. */
const VARIANTS = [
  'two numbers',
  'an object with a list',
  'tensor',
  'an async handler',
  'an AbortSignal of its own',
  'a watched diagnostics channel',
  'AsyncLocalStorage in the caller',
];
const IN_FLIGHT = 64;
const OPEN_CALLS = 10_000;
const OPEN_CALLS_MIB = 100;

/** Of one kind of call: median round trip, and calls per second. */
interface Figures {
  readonly p50: number[];
  readonly atOnce: number[];
  readonly loop: number[];
}

export async function run(context: SuiteContext): Promise<Row[]> {
  const all: Contestant[] = [];
  try {
    const ours = await startBackwire(OURS, { transports: ['unix'] });
    all.push(ours, await startRaw('unix'), await startFrames(FRAMES));
    all.push(await startBackwire(HOOKS, { transports: ['unix'], hooks: true }));
    const figures = new Map<string, Figures>();
    const rows: Row[] = [];
    await measure(
      context,
      all.map((each) => [each.name, each, PLAIN]),
      figures,
    );
    rows.push(...compare(figures, OURS, 'empty call', RAW_UNIX), ...compare(figures, OURS, 'empty call', FRAMES));
    rows.push(...compare(figures, FRAMES, FRAMES, RAW_UNIX), ...compare(figures, HOOKS, 'with an extension', OURS));
    for (const variant of VARIANTS) {
      const pair = new Map<string, Figures>();
      await measure(
        context,
        [
          [PLAIN_CALL, ours, PLAIN],
          [variant, ours, variant],
        ],
        pair,
      );
      rows.push(...compare(pair, variant, variant === 'tensor' ? 'a 4-float tensor' : variant, PLAIN_CALL));
    }
    return [...rows, ...(await openCallRows())];
  } finally {
    for (const contestant of all.reverse()) await contestant.close();
  }
}

/** Each kind in turns, after the compilers have seen it. */
async function measure(
  { quick }: SuiteContext,
  kinds: readonly (readonly [called: string, contestant: Contestant, payload: string])[],
  into: Map<string, Figures>,
): Promise<void> {
  const { rounds, latencyCalls, throughputCalls } = quick ? QUICK : FULL;
  for (let round = -rounds; round < rounds; round++) {
    for (const [called, contestant, payload] of kinds) {
      const p50 = median((await contestant.latency(payload, latencyCalls / 2)) ?? []);
      const atOnce = (await contestant.throughput(payload, throughputCalls, 0)) ?? Number.NaN;
      const loop = (await contestant.throughput(payload, throughputCalls, IN_FLIGHT)) ?? Number.NaN;
      if (round < 0) continue;
      const figures = into.get(called) ?? { p50: [], atOnce: [], loop: [] };
      into.set(called, figures);
      figures.p50.push(p50);
      figures.atOnce.push(atOnce);
      figures.loop.push(loop);
    }
  }
}

function compare(figures: ReadonlyMap<string, Figures>, ours: string, called: string, against: string): Row[] {
  const [own, others] = [figures.get(ours), figures.get(against)];
  if (own === undefined || others === undefined) return [];
  const faster = { better: 'higher', unit: 'calls/s', against } as const;
  return [
    rowOf({ name: `${called}, p50`, better: 'lower', unit: 'µs', against }, own.p50, others.p50),
    rowOf({ name: `${called}, at once`, ...faster }, own.atOnce, others.atOnce),
    rowOf({ name: `${called}, ${IN_FLIGHT} in flight`, ...faster }, own.loop, others.loop),
  ];
}

/** Of a pair of its own, whose handlers may all run at once. */
async function openCallRows(): Promise<Row[]> {
  const pair = await startBackwire(OURS, { transports: ['unix'], maxConcurrentCalls: 2 * OPEN_CALLS });
  try {
    await pair.openCalls(OPEN_CALLS);
    const { client, server } = await pair.openCalls(OPEN_CALLS);
    const about = { unit: 'MiB', better: 'lower', against: 'the limit' } as const;
    return [
      rowOf({ name: `${OPEN_CALLS} open calls, caller`, ...about }, [client], [OPEN_CALLS_MIB]),
      rowOf({ name: `${OPEN_CALLS} open calls, callee`, ...about }, [server], [OPEN_CALLS_MIB]),
    ];
  } finally {
    await pair.close();
  }
}
