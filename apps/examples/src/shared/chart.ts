/** @file Line charts as SVG: panels beside each other, each with axes, ticks, grid and legend. */

export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Shows the points themselves; for few of them. @default false */
  readonly marks?: boolean;
}

export interface Panel {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
  /** Shows the y axis as percent of 1. @default false */
  readonly percent?: boolean;
}

const WIDTH = 560;
const HEIGHT = 380;
const MARGIN = { top: 48, right: 24, bottom: 56, left: 72 };
/** Colours that people with any kind of colour vision tell apart (Okabe and Ito). */
export const SVG_COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];

/** A standalone SVG document. */
export function chartSvg(panels: readonly Panel[]): string {
  const width = WIDTH * panels.length;
  const body = panels.map((panel, i) => `<g transform="translate(${i * WIDTH} 0)">${panelSvg(panel)}</g>`).join('\n');
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${HEIGHT}" width="${width}" height="${HEIGHT}" ` +
    `font-family="system-ui, sans-serif" font-size="12" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n${body}\n</svg>\n`
  );
}

/** About `count` round numbers that cover [low, high]: steps of 1, 2 or 5 times a power of ten. */
export function ticks(low: number, high: number, count = 6): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function panelSvg(panel: Panel): string {
  const points = panel.series
    .flatMap((series) => series.points)
    .filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const xTicks = ticks(Math.min(0, ...points.map(([x]) => x)), Math.max(1, ...points.map(([x]) => x)));
  const yTicks = ticks(
    ...yRange(
      points.map(([, y]) => y),
      panel.percent === true,
    ),
  );
  const x = scale(xTicks, MARGIN.left, WIDTH - MARGIN.right);
  const y = scale(yTicks, HEIGHT - MARGIN.bottom, MARGIN.top);
  const label = (value: number): string =>
    panel.percent === true ? `${Number((value * 100).toPrecision(6))} %` : String(value);
  const bottom = HEIGHT - MARGIN.bottom;
  const right = WIDTH - MARGIN.right;
  return [
    `<text x="${(MARGIN.left + right) / 2}" y="26" text-anchor="middle" font-size="15" font-weight="600">${escapeXml(panel.title)}</text>`,
    ...yTicks.map(
      (tick) =>
        `<line x1="${MARGIN.left}" x2="${right}" y1="${y(tick)}" y2="${y(tick)}" stroke="#e4e4e4"/>` +
        `<text x="${MARGIN.left - 8}" y="${y(tick) + 4}" text-anchor="end">${label(tick)}</text>`,
    ),
    ...xTicks.map(
      (tick) =>
        `<line x1="${x(tick)}" x2="${x(tick)}" y1="${bottom}" y2="${bottom + 5}" stroke="#444"/>` +
        `<text x="${x(tick)}" y="${bottom + 20}" text-anchor="middle">${tick}</text>`,
    ),
    `<path d="M${MARGIN.left} ${MARGIN.top}V${bottom}H${right}" fill="none" stroke="#444"/>`,
    `<text x="${(MARGIN.left + right) / 2}" y="${HEIGHT - 14}" text-anchor="middle">${escapeXml(panel.xLabel)}</text>`,
    `<text transform="translate(18 ${(MARGIN.top + bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeXml(panel.yLabel)}</text>`,
    ...panel.series.map((series, i) => seriesSvg(series, SVG_COLOURS[i % SVG_COLOURS.length] ?? '#000', x, y)),
    legendSvg(panel.series, right),
  ].join('\n');
}

function seriesSvg(
  { points, marks }: Series,
  colour: string,
  x: (v: number) => number,
  y: (v: number) => number,
): string {
  const shown = points.filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py));
  const path = shown.map(([px, py], i) => `${i === 0 ? 'M' : 'L'}${x(px)} ${y(py)}`).join('');
  const dots =
    marks === true
      ? shown.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="3.5" fill="${colour}"/>`).join('')
      : '';
  return `<path d="${path}" fill="none" stroke="${colour}" stroke-width="1.6" stroke-linejoin="round"/>${dots}`;
}

function legendSvg(series: readonly Series[], right: number): string {
  const width = 34 + 7 * Math.max(0, ...series.map(({ name }) => name.length));
  return series
    .map(({ name }, i) => {
      const top = MARGIN.top + 8 + 18 * i;
      const left = right - width;
      return (
        `<line x1="${left}" x2="${left + 20}" y1="${top}" y2="${top}" stroke="${SVG_COLOURS[i % SVG_COLOURS.length] ?? '#000'}" stroke-width="2.5"/>` +
        `<text x="${left + 27}" y="${top + 4}">${escapeXml(name)}</text>`
      );
    })
    .join('');
}

function yRange(values: readonly number[], percent: boolean): [number, number] {
  if (values.length === 0) return [0, 1];
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (!percent) return [Math.min(0, low), high > low || low > 0 ? high : low + 1];
  // Accuracies huddle below 100 %: show a little below the lowest.
  return [Math.max(low - (1 - low) * 0.2, 0), 1];
}

function scale(domain: readonly number[], from: number, to: number): (value: number) => number {
  const low = domain[0] ?? 0;
  const span = (domain.at(-1) ?? 1) - low || 1;
  return (value) => Number((from + ((value - low) / span) * (to - from)).toFixed(2));
}

/** Text as it may stand in SVG. */
export function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
