/** @file The original's metrics: times by type and label, and the report of them. */
import { textTable } from '../shared/table.ts';

/** Times in seconds by 'type,label'. */
export type Metrics = Record<string, number[]>;

/** Measures from `recordStart` to `recordEnd` of the same type and key. */
export class MetricsLogger {
  private readonly open = new Map<string, { readonly name: string; readonly at: number }>();
  private metrics: Metrics = {};

  /** @throws TypeError when that key of that type is being measured already. */
  recordStart(type: string, key: string, label: string): void {
    const id = `${type}\n${key}`;
    if (this.open.has(id)) throw new TypeError(`metric ${type} with key ${key} has already been started`);
    this.open.set(id, { name: `${type},${label}`, at: performance.now() });
  }

  /** @throws TypeError when nothing is being measured there. */
  recordEnd(type: string, key: string): void {
    const id = `${type}\n${key}`;
    const started = this.open.get(id);
    if (started === undefined) throw new TypeError(`metric ${type} with key ${key} has not been started`);
    this.open.delete(id);
    (this.metrics[started.name] ??= []).push((performance.now() - started.at) / 1000);
  }

  processedMetrics(): Metrics {
    return this.metrics;
  }

  clear(): void {
    this.open.clear();
    this.metrics = {};
  }
}

/** Seconds, and seconds squared for the variance. Variance and stdev are of a sample, and null for a single value. */
export interface Statistics {
  readonly count: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly variance: number | null;
  readonly stdev: number | null;
}

export function statistics(values: readonly number[]): Statistics {
  const { length: count } = values;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = count < 2 ? null : values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  return {
    count,
    min: Math.min(...values),
    max: Math.max(...values),
    mean,
    variance,
    stdev: variance === null ? null : Math.sqrt(variance),
  };
}

/** The values of all metrics of one name together. */
export function combined(all: readonly Metrics[]): Metrics {
  const names = [...new Set(all.flatMap((metrics) => Object.keys(metrics)))];
  return Object.fromEntries(names.map((name) => [name, all.flatMap((metrics) => metrics[name] ?? [])]));
}

/** By name, sorted. */
export function summarize(metrics: Metrics): Record<string, Statistics> {
  return Object.fromEntries(
    Object.keys(metrics)
      .sort()
      .map((name) => [name, statistics(metrics[name] ?? [])]),
  );
}

/** The table the original prints, for one rank or all of a role. */
export function metricsTable(title: string, metrics: Metrics): string {
  const digits = (value: number | null): string => (value === null ? '-' : value.toPrecision(4));
  const rows = Object.entries(summarize(metrics)).map(([name, s]) => [
    name,
    ...[s.min, s.max, s.mean, s.variance, s.stdev].map(digits),
  ]);
  return `metrics for ${title}\n${textTable(['name', 'min', 'max', 'mean', 'variance', 'stdev'], rows)}`;
}
