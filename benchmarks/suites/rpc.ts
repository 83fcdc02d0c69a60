/** @file Small calls: one at a time, all at once, and a fixed number in flight. */
import { FULL, median, quantile, QUICK, type Contestant, type Payload } from '../measure.ts';
import { GRPC, OURS, OURS_TCP, RAW_TCP, RAW_UNIX, TORCH, withContestants } from '../rpc/contestants.ts';
import { inTurns, mapRounds, rowsOf, type Pairing } from '../rpc/rounds.ts';
import type { Row, SuiteContext } from '../suite.ts';

export const name = 'rpc';

const PAIRINGS: readonly Pairing[] = [
  [OURS, RAW_UNIX],
  [OURS_TCP, RAW_TCP],
  [OURS, GRPC],
  [OURS, TORCH],
];
const PAYLOADS: readonly { payload: Payload; called: string }[] = [
  { payload: 'nothing', called: 'empty call' },
  { payload: 'tensor', called: 'call with a 4-float tensor' },
];
const IN_FLIGHT = 64;

export function run(context: SuiteContext): Promise<Row[]> {
  return withContestants(context, async (all) => {
    const effort = context.quick ? QUICK : FULL;
    const { rounds, warmUps, latencyCalls, throughputCalls } = effort;
    const rows: Row[] = [];
    for (const { payload, called } of PAYLOADS) {
      const latency = (contestant: Contestant) => contestant.latency(payload, latencyCalls);
      const atOnce = (contestant: Contestant) => contestant.throughput(payload, throughputCalls, 0);
      const loop = (contestant: Contestant) => contestant.throughput(payload, throughputCalls, IN_FLIGHT);
      // Until the compilers have seen everything often enough.
      for (const block of [atOnce, loop, latency]) await inTurns<unknown>(all, warmUps, block);
      rows.push(...latencyRows(called, await inTurns(all, rounds, latency)));
      const rates = { unit: 'calls/s', better: 'higher' } as const;
      const at = await inTurns(all, rounds, atOnce);
      rows.push(...rowsOf({ name: `${called}, ${throughputCalls} at once`, ...rates }, at, PAIRINGS));
      const looped = await inTurns(all, rounds, loop);
      rows.push(...rowsOf({ name: `${called}, ${IN_FLIGHT} in flight`, ...rates }, looped, PAIRINGS));
    }
    return rows;
  });
}

function latencyRows(called: string, latencies: ReadonlyMap<string, readonly (readonly number[])[]>): Row[] {
  const about = { unit: 'µs', better: 'lower' } as const;
  const p50 = mapRounds(latencies, median);
  const p99 = mapRounds(latencies, (samples) => quantile(samples, 0.99));
  // The block that was disturbed least, of each.
  const best = new Map([...p50].map(([who, medians]) => [who, [Math.min(...medians)]]));
  return [
    ...rowsOf({ name: `${called}, p50`, ...about }, p50, PAIRINGS),
    ...rowsOf({ name: `${called}, p50 of the best block`, ...about }, best, PAIRINGS),
    ...rowsOf({ name: `${called}, p99`, ...about }, p99, PAIRINGS),
  ];
}
