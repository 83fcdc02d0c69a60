/** @file The group as a graph: a disc for each worker, a curve for each way that calls go. */
import { bytes, compact, svg, time } from './charts.js';

const WIDTH = 800;
const HEIGHT = 470;
const MIDDLE = HEIGHT / 2;
/** Workers from which there is no room for names and numbers: whoever points at a disc is told, and the table has all. */
const CROWDED = 25;
/** Ways from which nothing moves. */
const STILL = 80;
/** Units from one disc to the next, if there were one worker: the way around the ellipse. */
const AROUND = 1_400;

/** Draws workers on an ellipse, by id, and what goes between them. What stays is changed in place, so that it can be pointed at. */
export class Graph {
  constructor(element) {
    this.element = element;
    this.links = svg('g');
    this.workers = svg('g');
    this.byName = new Map();
    element.replaceChildren(heads(), this.links, this.workers);
  }

  draw(workers, links) {
    const places = placesOf(workers);
    const crowded = workers.length >= CROWDED;
    const roomy = workers.length > 16 ? 18 : workers.length > 8 ? 26 : 34;
    const radius = crowded ? Math.max(3, Math.min(roomy, (AROUND / workers.length) * 0.4)) : roomy;
    this.element.classList.toggle('crowded', crowded);
    this.element.classList.toggle('still', links.length >= STILL);
    this.links.replaceChildren(...links.flatMap((link) => linkParts(link, places, radius, workers.length)));
    const gone = new Set(this.byName.keys());
    for (const worker of workers) {
      gone.delete(worker.name);
      let disc = this.byName.get(worker.name);
      if (disc === undefined) {
        this.byName.set(worker.name, (disc = new Disc(worker.name)));
        this.workers.append(disc.element);
      }
      disc.update(worker, places.get(worker.name), radius, crowded);
    }
    for (const name of gone) {
      this.byName.get(name).element.remove();
      this.byName.delete(name);
    }
  }
}

function placesOf(workers) {
  const places = new Map();
  workers.forEach(({ name }, i) => {
    const angle = (i / workers.length) * 2 * Math.PI - Math.PI / 2;
    const alone = workers.length === 1;
    places.set(name, {
      x: WIDTH / 2 + (alone ? 0 : Math.cos(angle) * 285),
      y: MIDDLE + (alone ? 1 : Math.sin(angle) * 145),
    });
  });
  return places;
}

function linkParts({ from, to, calls, errors, bytes: rate, meanMs, up }, places, radius, count) {
  const [a, b] = [places.get(from), places.get(to)];
  if (a === undefined || b === undefined || (!up && calls === 0)) return [];
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(dx, dy) || 1;
  // To the right of the way, so that there and back lie beside each other.
  const bend = 26;
  const [nx, ny] = [-dy / length, dx / length];
  const middle = { x: (a.x + b.x) / 2 + nx * bend, y: (a.y + b.y) / 2 + ny * bend };
  const start = towards(a, middle, radius + 3);
  const end = towards(b, middle, radius + 9);
  const active = calls > 0;
  const path = svg('path', {
    class: `link${active ? ' active' : ''}${errors > 0 ? ' failing' : ''}`,
    d: `M${start.x},${start.y} Q${middle.x},${middle.y} ${end.x},${end.y}`,
    'data-from': from,
    'data-to': to,
  });
  if (active) {
    path.setAttribute('stroke-width', (1.5 + Math.log10(1 + calls) * 0.8).toFixed(2));
    path.setAttribute('marker-end', errors > 0 ? 'url(#failing-head)' : 'url(#head)');
  }
  const title = svg('title');
  title.textContent = `${from} → ${to}: ${compact(calls)} calls/s, ${bytes(rate)}/s, mean ${time(meanMs)}, ${compact(errors)} errors/s`;
  path.append(title);
  if (!active || count > 10) return [path];
  // Nearer to the caller, so that it is plain whose calls they are, and that ways which cross do not hide them.
  const at = pointOn(start, middle, end, 0.3);
  const label = svg('text', { class: 'rate', x: at.x.toFixed(1), y: (at.y + 4).toFixed(1) });
  label.textContent = `${compact(calls)}/s`;
  return [path, label];
}

/** The point of a quadratic curve at `t` from 0 to 1. */
function pointOn(from, control, to, t) {
  const mix = (a, b, c) => (1 - t) * (1 - t) * a + 2 * t * (1 - t) * b + t * t * c;
  return { x: mix(from.x, control.x, to.x), y: mix(from.y, control.y, to.y) };
}

function heads() {
  const head = (id) =>
    svg(
      'marker',
      {
        id,
        viewBox: '0 0 10 10',
        refX: 5,
        refY: 5,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: 'userSpaceOnUse',
        orient: 'auto',
      },
      svg('path', { class: id, d: 'M0,0 L10,5 L0,10 z' }),
    );
  return svg('defs', {}, head('head'), head('failing-head'));
}

function towards(from, to, by) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return {
    x: +(from.x + ((to.x - from.x) / length) * by).toFixed(1),
    y: +(from.y + ((to.y - from.y) / length) * by).toFixed(1),
  };
}

/** One worker. */
class Disc {
  constructor(name) {
    this.title = svg('title');
    this.circle = svg('circle', { class: 'disc' });
    this.inside = svg('text', { class: 'inside' });
    this.unit = svg('text', { class: 'small', y: 14 });
    this.name = svg('text', { class: 'name' });
    this.bytes = svg('text', { class: 'small' });
    this.element = svg(
      'g',
      { class: 'worker', 'data-worker': name, tabindex: 0, role: 'img' },
      this.title,
      this.circle,
      this.inside,
      this.unit,
      this.name,
      this.bytes,
    );
    this.name.textContent = name.length > 20 ? `${name.slice(0, 19)}…` : name;
  }

  update({ name, state, made, handled, sent, received, rrefs }, { x, y }, radius, crowded) {
    const alive = state !== 'dead' && state !== 'left';
    const said = alive
      ? `${name}, ${state}: makes ${compact(made)} and handles ${compact(handled)} calls a second, sends ${bytes(sent)} and receives ${bytes(received)} a second, owns ${rrefs} references`
      : `${name}, ${state}`;
    this.element.setAttribute('data-state', state);
    this.element.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    this.element.setAttribute('aria-label', said);
    this.title.textContent = said;
    this.circle.setAttribute('r', radius);
    for (const text of [this.inside, this.unit, this.name, this.bytes])
      text.setAttribute('display', crowded ? 'none' : 'inline');
    this.inside.setAttribute('y', alive ? 0 : 5);
    this.inside.textContent = alive ? compact(made + handled) : state;
    this.unit.textContent = alive ? 'calls/s' : '';
    // Away from the middle, where the ways are.
    const above = y < MIDDLE;
    this.name.setAttribute('y', above ? -radius - 23 : radius + 20);
    this.bytes.setAttribute('y', above ? -radius - 8 : radius + 35);
    this.bytes.textContent = alive ? `${bytes(sent + received)}/s` : '';
  }
}
