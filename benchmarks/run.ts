/** @file `npm run bench [-- --quick] [--json FILE] [--cma]`: Backwire against raw sockets and PyTorch RPC, in turns, as ratios. */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { startBackwire } from './backwire.ts';
import { ECHO_MIB, FULL, median, quantile, QUICK, type Contestant, type Effort } from './measure.ts';
import { copyRate, startRaw } from './raw.ts';
import { startTorch } from './torch.ts';

/** One line of the table. */
interface Row {
  readonly name: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  readonly peer: string;
  readonly ours: number;
  readonly theirs: number;
  /** Median over the rounds of ours / theirs. */
  readonly ratio: number;
}

/** Something measured: a number per contestant and round. */
interface Series {
  readonly name: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  readonly values: readonly number[][];
}

/** Blocks before anything counts. */
const WARM_UPS = 5;

const { values } = parseArgs({
  options: { quick: { type: 'boolean' }, json: { type: 'string' }, cma: { type: 'boolean' } },
});
const effort = values.quick === true ? QUICK : FULL;
const contestants: Contestant[] = [];
try {
  contestants.push(
    await startBackwire('Backwire', { transports: ['unix'], channels: values.cma === true ? ['cma'] : [] }),
  );
  contestants.push(await startRaw());
  const torch = await startTorch();
  if (typeof torch === 'string') console.log(`without PyTorch RPC: ${torch}`);
  else contestants.push(torch);
  const rows = rowsOf(await measure(contestants, effort), contestants);
  print(rows);
  if (values.json !== undefined) {
    const json = rows.map(({ theirs, peer, ...row }) => ({ ...row, against: peer, peer: theirs }));
    writeFileSync(values.json, `${JSON.stringify(json, null, 2)}\n`);
  }
} finally {
  for (const contestant of contestants.reverse()) await contestant.close();
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
      const ratio = median(ours.map((value, round) => value / (theirs[round] ?? Number.NaN)));
      // The column after the last contestant is the plain memory copy.
      const peer = all[i + 1]?.name ?? 'one memory copy';
      return { name, unit, better, peer, ours: median(ours), theirs: median(theirs), ratio };
    });
  });
}

function print(rows: readonly Row[]): void {
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`);
  const cells = rows.map((row) => [
    `${row.name} (${row.unit})`,
    row.peer,
    figure(row.ours),
    figure(row.theirs),
    `${row.ratio.toFixed(2)} (${row.better} is better)`,
  ]);
  const table = [['what', 'against', 'Backwire', 'peer', 'ratio'], ...cells];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...table.map((line) => line[column]?.length ?? 0)));
  for (const [i, line] of table.entries()) {
    console.log(`| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`);
    if (i === 0) console.log(`|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`);
  }
}

function figure(value: number): string {
  if (value >= 10_000) return `${Math.round(value / 1_000)} k`;
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
