/** @file What is made of the measurements: percentiles, the report and its chart. */
import { chartSvg } from '../shared/chart.ts';
import { textTable } from '../shared/table.ts';
import { type Flags, reported, type Variable } from './options.ts';

export const PERCENTILES = ['p50', 'p75', 'p90', 'p95'] as const;
export const METRICS = [
  'agent latency (seconds)',
  'agent throughput',
  'observer latency (seconds)',
  'observer throughput',
] as const;
/** A run's metrics, with the names of the original's report. */
export type Result = Record<(typeof METRICS)[number], Record<(typeof PERCENTILES)[number], number>>;

/** The percentile of values, interpolated between neighbours as numpy does. */
export function interpolated(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = ((sorted.length - 1) * percent) / 100;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  return low + ((sorted[Math.ceil(at)] ?? low) - low) * (at - Math.floor(at));
}

/** Percentiles of everything measured: seconds to the microsecond, throughputs whole. */
export function resultOf(measured: Record<(typeof METRICS)[number], readonly number[]>): Result {
  return Object.fromEntries(
    METRICS.map((metric) => [
      metric,
      Object.fromEntries(
        PERCENTILES.map((name) => {
          const value = interpolated(measured[metric], Number(name.slice(1)));
          return [name, metric.includes('latency') ? Number(value.toFixed(6)) : Math.round(value)];
        }),
      ),
    ]),
  ) as Result;
}

/** The table of one run. */
export function resultTable(result: Result): string {
  return textTable(
    ['', ...PERCENTILES],
    METRICS.map((metric) => [metric, ...PERCENTILES.map((name) => String(result[metric][name]))]),
  );
}

export interface Run {
  /** The value of the variable; undefined when there is none. */
  readonly x: string | undefined;
  readonly result: Result;
}

/** The original's report: the flags that did not vary, and the results, each with its value on the x axis. */
export function reportOf(given: Flags, variable: Variable | undefined, runs: readonly Run[]): object {
  const key = (name: string): string => name.replaceAll('-', '_');
  const constant = Object.entries(given).filter(([name]) => name !== variable);
  return {
    ...Object.fromEntries(constant.map(([name, value]) => [key(name), value])),
    ...(variable === undefined ? {} : { x_axis_name: key(variable) }),
    benchmark_results: runs.map(({ x, result }) =>
      variable === undefined || x === undefined ? result : { ...result, [key(variable)]: reported(variable, x) },
    ),
  };
}

/** A panel a metric: over the variable, a line a percentile; without one, over the percentiles. */
export function chartOf(variable: Variable | undefined, runs: readonly Run[]): string {
  // Values that are no numbers stand at 1, 2, 3 …
  const place = (x: string | undefined, i: number): number =>
    variable !== undefined && Number.isFinite(Number(x)) ? Number(x) : i + 1;
  const values = runs.map(({ x }) => x).join(', ');
  return chartSvg(
    METRICS.map((metric) => ({
      title: metric,
      xLabel: variable === undefined ? 'percentile' : `${variable} (${values})`,
      yLabel: metric.includes('latency') ? 'seconds' : 'per second',
      series:
        variable === undefined
          ? runs.map(({ result }) => ({
              name: metric,
              marks: true,
              points: PERCENTILES.map((name): [number, number] => [Number(name.slice(1)), result[metric][name]]),
            }))
          : PERCENTILES.map((name) => ({
              name,
              marks: true,
              points: runs.map(({ x, result }, i): [number, number] => [place(x, i), result[metric][name]]),
            })),
    })),
  );
}
