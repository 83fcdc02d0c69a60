/** @file Timelines as SVG: who did what when, a row per worker, a panel per run. */
import { escapeXml, SVG_COLOURS } from './chart.ts';

/** Something that took time. Times are milliseconds on any clock that the spans of a panel share. */
export interface Span {
  readonly label: string;
  /** Backward spans are hatched. */
  readonly kind: 'forward' | 'backward';
  /** Spans of one group have one colour. */
  readonly group: number;
  readonly start: number;
  readonly end: number;
}

export interface TimelinePanel {
  readonly title: string;
  readonly rows: readonly { readonly name: string; readonly spans: readonly Span[] }[];
}

const WIDTH = 960;
const LEFT = 84;
const RIGHT = 24;
const ROW = 34;
const HEADER = 40;
const FOOTER = 34;

/** A standalone SVG document. All panels have one scale, so that their lengths can be compared. */
export function timelineSvg(panels: readonly TimelinePanel[]): string {
  const ranges = panels.map(({ rows }) => {
    const spans = rows.flatMap((row) => row.spans);
    const first = Math.min(...spans.map(({ start }) => start));
    return { first, length: Math.max(...spans.map(({ end }) => end)) - first };
  });
  const longest = Math.max(1, ...ranges.map(({ length }) => length).filter(Number.isFinite));
  let top = 0;
  const parts = panels.map((panel, i) => {
    const svg = `<g transform="translate(0 ${top})">${panelSvg(panel, ranges[i]?.first ?? 0, longest)}</g>`;
    top += HEADER + ROW * panel.rows.length + FOOTER;
    return svg;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" ` +
    `font-family="system-ui, sans-serif" font-size="12" fill="#222">\n` +
    `<defs><pattern id="back" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
    `<rect width="2.4" height="6" fill="#fff" fill-opacity="0.55"/></pattern></defs>\n` +
    `<rect width="100%" height="100%" fill="#fff"/>\n${parts.join('\n')}\n</svg>\n`
  );
}

function panelSvg({ title, rows }: TimelinePanel, first: number, longest: number): string {
  const scale = (WIDTH - LEFT - RIGHT) / longest;
  const bottom = HEADER + ROW * rows.length;
  const ticks = Array.from({ length: 6 }, (_, i) => (i * longest) / 5);
  return [
    `<text x="${LEFT}" y="24" font-size="15" font-weight="600">${escapeXml(title)}</text>`,
    ...ticks.map((ms) => {
      const x = (LEFT + ms * scale).toFixed(1);
      return (
        `<line x1="${x}" x2="${x}" y1="${HEADER}" y2="${bottom}" stroke="#e4e4e4"/>` +
        `<text x="${x}" y="${bottom + 16}" text-anchor="middle">${ms.toFixed(0)} ms</text>`
      );
    }),
    ...rows.flatMap(({ name, spans }, row) => [
      `<text x="${LEFT - 8}" y="${HEADER + ROW * row + 21}" text-anchor="end">${escapeXml(name)}</text>`,
      ...spans.map((span) => spanSvg(span, LEFT + (span.start - first) * scale, HEADER + ROW * row + 4, scale)),
    ]),
  ].join('\n');
}

function spanSvg({ label, kind, group, start, end }: Span, x: number, y: number, scale: number): string {
  const width = Math.max((end - start) * scale, 1);
  const box = `x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 8}" rx="2"`;
  const colour = SVG_COLOURS[group % SVG_COLOURS.length] ?? '#000';
  const hatch = kind === 'backward' ? `<rect ${box} fill="url(#back)"/>` : '';
  const text =
    width < 18
      ? ''
      : `<text x="${(x + width / 2).toFixed(1)}" y="${y + 17}" text-anchor="middle" font-size="11" font-weight="600" fill="#111">${escapeXml(label)}</text>`;
  const ms = (end - start).toFixed(1);
  return `<g><title>${escapeXml(label)}: ${ms} ms</title><rect ${box} fill="${colour}"/>${hatch}${text}</g>`;
}

/** How many of the rows had something to do at once, in the mean over the time from the first beginning to the last end; 0 without spans. */
export function atWork(rows: readonly (readonly Span[])[]): number {
  const spans = rows.flat();
  const whole = Math.max(...spans.map(({ end }) => end)) - Math.min(...spans.map(({ start }) => start));
  return whole > 0 ? rows.reduce((sum, row) => sum + covered(row), 0) / whole : 0;
}

/** The time in which at least one of the spans is. */
function covered(row: readonly Span[]): number {
  let total = 0;
  let until = -Infinity;
  for (const { start, end } of [...row].sort((a, b) => a.start - b.start)) {
    total += Math.max(end - Math.max(start, until), 0);
    until = Math.max(until, end);
  }
  return total;
}
