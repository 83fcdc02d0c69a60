/** @file The tables at the end of a check. */
import { EXPLANATIONS } from './explained.ts';
import type { Finding } from './checker.ts';
import type { Tally } from './run.ts';

/** Columns as wide as their widest cell; the first to the left, numbers to the right. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)));
  return rows
    .map((row) =>
      row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  '),
    )
    .join('\n');
}

export function totalOf(tallies: ReadonlyMap<string, Tally>): Tally {
  const total = { programs: 0, refused: 0, explained: 0, unexplained: 0 };
  for (const one of tallies.values()) for (const key of Object.keys(total) as (keyof Tally)[]) total[key] += one[key];
  return total;
}

export function showTallies(tallies: ReadonlyMap<string, Tally>): string {
  const row = (name: string, t: Tally): string[] => [
    name,
    ...[t.programs, t.refused, t.explained, t.unexplained].map(String),
  ];
  return table([
    ['suite', 'programs', 'refused by PyTorch', 'explained', 'unexplained'],
    ...[...tallies].map(([name, tally]) => row(name, tally)),
    row('all', totalOf(tallies)),
  ]);
}

/** How often each explanation was needed, and what it says. */
export function showExplained(findings: readonly Finding[]): string {
  const rows = EXPLANATIONS.flatMap(({ name, reason }) => {
    const programs = new Set(findings.filter(({ explained }) => explained === name).map(({ program }) => program));
    return programs.size === 0 ? [] : [`${String(programs.size).padStart(6)}  ${name}: ${reason}`];
  });
  return rows.length === 0 ? '' : ['explained differences, by programs:', ...rows].join('\n');
}
