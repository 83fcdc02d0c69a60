/** @file Times, bytes and tables for a terminal. */
import { plainText } from '@backwire/rpc/internal';
import { MAX_CELL } from './limits.ts';

/** '412 ms', '3.2 s', '4 min 10 s', '2 h 5 min'. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** '812 B', '1.4 KiB', '32.0 MiB'. */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return unit === 0 ? `${Math.round(value)} B` : `${value.toFixed(1)} ${units[unit] ?? ''}`;
}

/** A cell without line breaks and control characters, cut at the end. */
export function cell(text: string, most: number = MAX_CELL): string {
  // Names come from other machines: nothing in them may move the cursor or turn the line around.
  const clean = plainText(text);
  return clean.length > most ? `${clean.slice(0, most - 1)}…` : clean;
}

/** Columns as wide as their widest cell; `right` names those that are numbers. */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly number[] = [],
): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((text, column) =>
          right.includes(column) ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
