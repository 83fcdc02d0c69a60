/** @file Small charts of the sums over the group, and the timeline of calls. Texts come from other processes: they are never markup. */
/* global document */

const SVG = 'http://www.w3.org/2000/svg';
/** Calls drawn at once; older ones go first. */
const MAX_DRAWN = 4000;
/** Colours, and rows within the row of a caller: one for each callee, as far as they go. */
const COLOURS = 6;
const THIN = 7;
/** Callers from which all calls of one share a row. */
const MANY = 16;
/** Pixels from which a bar says which call it is. */
const WIDE = 5;
const LABEL = 110;

/** An SVG element with attributes and children. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** '1.2K', '3.4M'. */
export function compact(value) {
  if (value !== 0 && Math.abs(value) < 10) return value.toFixed(1).replace(/\.0$/, '');
  return new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(value);
}

/** '812 B', '1.4 KiB'. */
export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** '410 µs', '3.2 ms', '1.5 s'. */
export function time(ms) {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min`;
}

/** Draws `values`, oldest first, as a line over an area. */
export function spark(element, values, title) {
  const most = Math.max(...values, 1e-9) * 1.15;
  const width = Math.max(values.length - 1, 1);
  element.setAttribute('viewBox', `0 0 ${width} 100`);
  element.setAttribute('aria-label', title);
  const points = values.map((value, i) => `${i},${(98 - (value / most) * 96).toFixed(2)}`);
  const line = points.length === 1 ? `0,${points[0].split(',')[1]} 1,${points[0].split(',')[1]}` : points.join(' ');
  element.replaceChildren(
    svg('polygon', { class: 'area', points: `0,100 ${line} ${width},100` }),
    svg('polyline', { class: 'line', points: line }),
  );
}

/** The calls that ended lately: a row for each caller, a bar for each call. */
export class Timeline {
  constructor(element, seconds) {
    this.element = element;
    this.spanMs = seconds * 1000;
    this.calls = [];
  }

  /** @param workers names, in the order of the rows; their place is also the colour of calls to them. */
  add(calls, workers, now) {
    const oldest = now - this.spanMs;
    this.calls = [...this.calls, ...calls].filter(({ at, ms }) => at + ms > oldest).slice(-MAX_DRAWN);
    this.draw(workers, now);
  }

  draw(workers, now) {
    const width = Math.max(this.element.clientWidth, 400);
    this.rows = workers.length > MANY ? 1 : Math.min(Math.max(workers.length, 2), COLOURS);
    this.lane = this.rows * THIN + 10;
    const height = workers.length * this.lane + 20;
    const x = (at) => LABEL + ((at - (now - this.spanMs)) / this.spanMs) * (width - LABEL - 8);
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.setAttribute('height', String(height));
    this.element.setAttribute('aria-label', `${this.calls.length} calls that ended lately`);
    const parts = [hatch()];
    workers.forEach((name, row) => {
      const y = (row + 0.5) * this.lane;
      const label = svg('text', { class: 'label', x: 0, y: y + 4 });
      const title = svg('title');
      title.textContent = name;
      label.append(title, name.length > 13 ? `${name.slice(0, 12)}…` : name);
      parts.push(
        svg('rect', {
          class: 'lane',
          x: LABEL,
          width: width - LABEL - 8,
          y: row * this.lane + 2,
          height: this.lane - 4,
          rx: 4,
        }),
        label,
      );
    });
    for (let s = 0; s <= this.spanMs / 1000; s += 5) {
      const tick = svg('text', {
        class: 'tick',
        x: x(now - s * 1000),
        y: height - 4,
        'text-anchor': s === 0 ? 'end' : 'middle',
      });
      tick.textContent = s === 0 ? 'now' : `−${s} s`;
      parts.push(tick);
    }
    parts.push(...this.bars(workers, x));
    this.element.replaceChildren(...parts);
  }

  /** Bars too narrow to be pointed at are one shape for each colour: thousands of elements would keep the browser busy. */
  bars(workers, x) {
    const narrow = new Map();
    const wide = [];
    for (const call of this.calls) {
      const row = workers.indexOf(call.from);
      if (row < 0) continue;
      const callee = Math.max(workers.indexOf(call.to), 0) % COLOURS;
      const left = Math.max(x(call.at), LABEL);
      const width = Math.max(x(call.at + call.ms) - left, 2);
      const y = row * this.lane + 5 + (callee % this.rows) * THIN;
      if (width >= WIDE || call.error !== undefined) wide.push(bar(call, callee, left, y, width));
      else
        narrow.set(
          callee,
          `${narrow.get(callee) ?? ''}M${left.toFixed(1)},${y}h${width.toFixed(1)}v${THIN - 1}h-${width.toFixed(1)}z`,
        );
    }
    return [...[...narrow].map(([callee, d]) => svg('path', { class: 'call', 'data-colour': callee + 1, d })), ...wide];
  }
}

function bar({ from, to, method, ms, error }, callee, left, y, width) {
  const element = svg('rect', {
    class: error === undefined ? 'call' : 'call failed',
    'data-colour': callee + 1,
    x: left.toFixed(1),
    y,
    width: width.toFixed(1),
    height: THIN - 1,
    rx: 2,
  });
  const title = svg('title');
  title.textContent = `${from} → ${to}  ${method}  ${time(ms)}${error === undefined ? '' : `  failed: ${error}`}`;
  element.append(title);
  return element;
}

function hatch() {
  const pattern = svg(
    'pattern',
    { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
    svg('rect', { class: 'hatch-ground', width: 6, height: 6 }),
    svg('line', { class: 'hatch-line', x1: 0, y1: 0, x2: 0, y2: 6 }),
  );
  return svg('defs', {}, pattern);
}
