/** @file What each part of the way of a call costs: against raw sockets, bare frames, and the plain empty call. */
import { FULL, median, QUICK, type Contestant } from '../measure.ts';
import { startBackwire, type BackwireContestant, type BackwireOptions } from '../rpc/backwire.ts';
import { OURS, RAW_UNIX } from '../rpc/contestants.ts';
import { startFrames } from '../rpc/frames.ts';
import { startRaw } from '../rpc/raw.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'cost';

const FRAMES = 'bare frames';
const SESSION = 'frames in a session';
const PLAIN = 'nothing';
const PLAIN_CALL = 'the plain empty call';
/** Agents that differ from another in one part: what that part is, and from whom. */
const AGENTS: readonly { who: string; called: string; against: string; options: BackwireOptions }[] = [
  {
    who: 'no security',
    called: 'authentication (HMAC), Unix',
    against: OURS,
    options: { transports: ['unix'], security: { mode: 'none', iUnderstand: true } },
  },
  { who: 'no thread', called: 'liveness thread', against: OURS, options: { transports: ['unix'], thread: false } },
  { who: 'hooks', called: 'an interceptor', against: OURS, options: { transports: ['unix'], extensions: 'hooks' } },
  {
    who: 'all extensions',
    called: 'all three extensions',
    against: OURS,
    options: { transports: ['unix'], extensions: 'all' },
  },
  {
    who: 'TCP without security',
    called: 'authentication (HMAC), TCP',
    against: 'TCP',
    options: { transports: ['tcp'], security: { mode: 'none', iUnderstand: true } },
  },
  {
    who: 'TLS',
    called: 'TLS 1.3 with a pre-shared key',
    against: 'TCP',
    options: { transports: ['tcp'], security: { mode: 'psk' } },
  },
];
/** Parts that a call of the same two workers can have or not; the last one stays on once it was. */
const VARIANTS = [
  'two numbers',
  'an object with a list',
  'tensor',
  'an async handler',
  'no deadline',
  'an AbortSignal of all',
  'an AbortSignal of its own',
  'waitAll around',
  'a watched diagnostics channel',
  'AsyncLocalStorage in the caller',
];
/** Agents that lack the part their row is about. */
const LACKS: ReadonlySet<string> = new Set(['no security', 'no thread', 'TCP without security']);
/** Parts that a new connection pays for. */
const HANDSHAKES: ReadonlySet<string> = new Set([
  'authentication (HMAC), Unix',
  'authentication (HMAC), TCP',
  'TLS 1.3 with a pre-shared key',
]);
const RECONNECTS = 50;
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
  const rows = await layers(context);
  rows.push(...(await parts(context)));
  const ours = await startBackwire(OURS, { transports: ['unix'] });
  try {
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
  } finally {
    await ours.close();
  }
  return [...rows, ...(await openCallRows())];
}

/** From the socket up: what each layer costs on top of the one below it. */
async function layers(context: SuiteContext): Promise<Row[]> {
  const all: Contestant[] = [];
  try {
    all.push(await startRaw('unix'), await startFrames(FRAMES), await startFrames(SESSION, 'session'));
    all.push(await startBackwire(OURS, { transports: ['unix'] }));
    const figures = new Map<string, Figures>();
    await measure(
      context,
      all.map((each) => [each.name, each, PLAIN]),
      figures,
    );
    return [
      ...compare(figures, FRAMES, FRAMES, RAW_UNIX),
      ...compare(figures, SESSION, SESSION, FRAMES),
      ...compare(figures, OURS, 'empty call', SESSION),
      ...compare(figures, OURS, 'empty call', FRAMES),
      ...compare(figures, OURS, 'empty call', RAW_UNIX),
    ];
  } finally {
    for (const contestant of all.reverse()) await contestant.close();
  }
}

/** Agents with and without a part, in turns. */
async function parts(context: SuiteContext): Promise<Row[]> {
  const all = new Map<string, BackwireContestant>();
  try {
    all.set(OURS, await startBackwire(OURS, { transports: ['unix'] }));
    all.set('TCP', await startBackwire('TCP', { transports: ['tcp'], security: { mode: 'hmac' } }));
    for (const { who, options } of AGENTS) all.set(who, await startBackwire(who, options));
    const figures = new Map<string, Figures>();
    await measure(
      context,
      [...all].map(([who, contestant]) => [who, contestant, PLAIN]),
      figures,
    );
    const again = new Map<string, number[]>();
    for (let round = 0; round < (context.quick ? QUICK : FULL).rounds; round++) {
      for (const [who, contestant] of all)
        again.set(who, [...(again.get(who) ?? []), median(await contestant.reconnect(RECONNECTS))]);
    }
    return AGENTS.flatMap(({ who, called, against }) => {
      // Of two the one with the part is ours: for some that is the one everybody is compared with.
      const [ours, other] = LACKS.has(who) ? [against, who] : [who, against];
      const about = { unit: 'µs', better: 'lower', against: other } as const;
      const connect = rowOf(
        { name: `${called}, connect and call`, ...about },
        again.get(ours) ?? [],
        again.get(other) ?? [],
      );
      return [...compare(figures, ours, called, other), ...(HANDSHAKES.has(called) ? [connect] : [])];
    });
  } finally {
    for (const contestant of [...all.values()].reverse()) await contestant.close();
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
