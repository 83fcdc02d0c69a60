/** @file What the suite `scale` measures of a group, as a table: a line for each size, and the exponents with which the columns grow. */

/** Of one group. What was not measured of it is left out. */
export interface Figures {
  /** What the line is called. */
  readonly who: string;
  readonly size: number;
  readonly joinS: number;
  /** Processor time of all of them and the store. */
  readonly joinCpuS?: number | undefined;
  /** At the store, for each worker. */
  readonly joinRequests?: number | undefined;
  readonly joinKiB?: number | undefined;
  readonly meshS?: number | undefined;
  readonly meshCpuS?: number | undefined;
  /** For each end of a session. */
  readonly endKiB?: number | undefined;
  readonly workerMiB?: number | undefined;
  /** For each worker and second, when nobody does anything. */
  readonly idleStoreBytes?: number | undefined;
  readonly idleSessionBytes?: number | undefined;
  /** At the store for each worker, from a death until some time after all know of it. */
  readonly changeBytes?: number | undefined;
  readonly deathS?: number | undefined;
  readonly barrierMs?: number | undefined;
  /** Until all have left and let go of everything. */
  readonly leaveS?: number | undefined;
}

const COLUMNS: readonly { readonly head: string; readonly of: (figures: Figures) => number | undefined }[] = [
  { head: 'join s', of: ({ joinS }) => joinS },
  { head: 'join CPU s', of: ({ joinCpuS }) => joinCpuS },
  { head: 'requests a join', of: ({ joinRequests }) => joinRequests },
  { head: 'KiB a join', of: ({ joinKiB }) => joinKiB },
  { head: 'mesh s', of: ({ meshS }) => meshS },
  { head: 'mesh CPU s', of: ({ meshCpuS }) => meshCpuS },
  { head: 'KiB a session end', of: ({ endKiB }) => endKiB },
  { head: 'MiB a worker', of: ({ workerMiB }) => workerMiB },
  { head: 'idle B/s, store', of: ({ idleStoreBytes }) => idleStoreBytes },
  { head: 'idle B/s, sessions', of: ({ idleSessionBytes }) => idleSessionBytes },
  { head: 'B a change', of: ({ changeBytes }) => changeBytes },
  { head: 'death s', of: ({ deathS }) => deathS },
  { head: 'barrier ms', of: ({ barrierMs }) => barrierMs },
  { head: 'leave s', of: ({ leaveS }) => leaveS },
];

/** Lines of `all`, then the exponents over `fitted`. Columns of which nothing is known are left out. */
export function table(all: readonly Figures[], fitted: readonly Figures[]): string {
  const columns = COLUMNS.filter(({ of }) => all.some((figures) => of(figures) !== undefined));
  const lines = [
    ['workers', ...columns.map(({ head }) => head)],
    ...all.map((figures) => [figures.who, ...columns.map(({ of }) => text(of(figures)))]),
  ];
  if (fitted.length > 1) lines.push(['grows as n^', ...columns.map(({ of }) => text(exponent(fitted, of)))]);
  const widths = lines[0]?.map((_, i) => Math.max(...lines.map((line) => (line[i] ?? '').length))) ?? [];
  const drawn = lines.map((line) => `| ${line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`);
  drawn.splice(1, 0, `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`);
  return drawn.join('\n');
}

/** One line for one group, as soon as it is known. */
export function line(figures: Figures): string {
  return COLUMNS.filter(({ of }) => of(figures) !== undefined)
    .map(({ head, of }) => `${head} ${text(of(figures))}`)
    .join(', ');
}

/** The slope of a straight line through the logarithms: 0 = the same at every size, 1 = as the size, 2 = as its square. */
export function exponent(figures: readonly Figures[], of: (figure: Figures) => number | undefined): number {
  const points = figures.flatMap((figure): [number, number][] => {
    const value = of(figure);
    return value === undefined || value <= 0 ? [] : [[Math.log(figure.size), Math.log(value)]];
  });
  if (points.length < 2) return Number.NaN;
  const mean = (i: 0 | 1): number => points.reduce((sum, point) => sum + point[i], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const covariance = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0);
  return covariance / points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
}

function text(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toString();
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}
