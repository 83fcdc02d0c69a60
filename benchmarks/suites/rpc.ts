/** @file Calls and tensors: Backwire against raw sockets and PyTorch RPC, in turns. */
import { startBackwire } from '../rpc/backwire.ts';
import { copyRate, startRaw } from '../rpc/raw.ts';
import { startTorch } from '../rpc/torch.ts';
import { ECHO_MIB, FULL, quantile, QUICK, type Contestant, type Effort } from '../measure.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'rpc';

/** Something measured: a number per contestant and round. */
interface Series {
  readonly name: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  readonly values: readonly number[][];
}

/** Blocks before anything counts. */
const WARM_UPS = 5;

export async function run(context: SuiteContext): Promise<Row[]> {
  const contestants: Contestant[] = [];
  try {
    contestants.push(await startBackwire('Backwire', { transports: ['unix'], channels: [] }));
    contestants.push(await startRaw());
    const torch = await startTorch();
    if (typeof torch === 'string') context.log(`without PyTorch RPC: ${torch}`);
    else contestants.push(torch);
    return rowsOf(await measure(contestants, context.quick ? QUICK : FULL), contestants);
  } finally {
    for (const contestant of contestants.reverse()) await contestant.close();
  }
}

/** All measurements; within a round the contestants take turns, so that whatever else the machine does hits all of them. */
async function measure(all: readonly Contestant[], size: Effort): Promise<Series[]> {
  const { rounds, latencyCalls, throughputCalls } = size;
  // Until the compilers have seen everything often enough.
  for (let i = 0; i < WARM_UPS; i++) {
    await inTurns(all, (contestant) => contestant.throughput(throughputCalls));
    await inTurns(all, (contestant) => contestant.latency(latencyCalls));
  }
  const latencies: (readonly number[])[][] = [];
  const throughputs: number[][] = [];
  const bodies = new Map<number, number[][]>(ECHO_MIB.map((mib) => [mib, []]));
  for (let round = 0; round < rounds; round++) {
    latencies.push(await inTurns(all, (contestant) => contestant.latency(latencyCalls)));
    throughputs.push(await inTurns(all, (contestant) => contestant.throughput(throughputCalls)));
    for (const [mib, rates] of bodies) {
      // The first echo of a size fills the pools; it is not counted.
      if (round === 0) await inTurns(all, (contestant) => contestant.echo(mib, 1));
      const measured = await inTurns(all, (contestant) => contestant.echo(mib, size.echoes(mib)));
      rates.push([...measured, copyRate(mib, size.echoes(mib))]);
    }
  }
  const quantiles = (share: number): number[][] =>
    latencies.map((round) => round.map((samples) => quantile(samples, share)));
  return [
    { name: 'empty call, p50', unit: 'µs', better: 'lower', values: quantiles(0.5) },
    { name: 'empty call, p99', unit: 'µs', better: 'lower', values: quantiles(0.99) },
    { name: `${throughputCalls} calls at once`, unit: 'calls/s', better: 'higher', values: throughputs },
    ...ECHO_MIB.map((mib): Series => {
      return { name: `tensor echo, ${mib} MiB`, unit: 'GiB/s', better: 'higher', values: bodies.get(mib) ?? [] };
    }),
  ];
}

async function inTurns<T>(all: readonly Contestant[], block: (contestant: Contestant) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (const contestant of all) results.push(await block(contestant));
  return results;
}

function rowsOf(series: readonly Series[], all: readonly Contestant[]): Row[] {
  return series.flatMap(({ name, unit, better, values: rounds }) => {
    const columns = (rounds[0] ?? []).map((_, column) => rounds.map((round) => round[column] ?? Number.NaN));
    const [ours = [], ...others] = columns;
    return others.map((theirs, i): Row => {
      // The column after the last contestant is the plain memory copy.
      const against = all[i + 1]?.name ?? 'one memory copy';
      return rowOf({ name, unit, better, against }, ours, theirs);
    });
  });
}
