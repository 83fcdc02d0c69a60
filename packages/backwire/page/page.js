/** @file The live page: listens to what the command sees, and draws it. */
/* global document, EventSource, matchMedia */
import { bytes, compact, spark, time, Timeline } from './charts.js';
import { Graph } from './graph.js';
import { fill } from './tables.js';

/** Looks in a chart, and notes in the list. */
const MAX_POINTS = 120;
const MAX_NOTES = 100;
const SECONDS = 20;

const byId = (id) => document.getElementById(id);
const status = byId('status');
const timeline = new Timeline(byId('timeline'), SECONDS);
const graph = new Graph(byId('graph'));
let totals = [];

const FORMATS = { calls: compact, bytes, rrefs: compact, contexts: compact };
const WORKER_COLUMNS = [
  { title: 'Name', of: ({ name }) => name, heading: true },
  { title: 'Id', of: ({ id }) => String(id), number: true },
  { title: 'State', of: ({ state }) => state, state: true },
  { title: 'Pid', of: ({ pid }) => String(pid ?? ''), number: true },
  { title: 'Up for', of: ({ upMs }) => (upMs > 0 ? time(upMs) : ''), number: true },
  { title: 'Made/s', of: ({ made }) => compact(made), number: true },
  { title: 'Handled/s', of: ({ handled }) => compact(handled), number: true },
  { title: 'Failed/s', of: ({ failed }) => compact(failed), number: true },
  { title: 'Sent/s', of: ({ sent }) => bytes(sent), number: true },
  { title: 'Received/s', of: ({ received }) => bytes(received), number: true },
  { title: 'Open', of: ({ open }) => String(open), number: true },
  { title: 'Handlers', of: ({ handlers, queued }) => `${handlers}${queued > 0 ? ` + ${queued}` : ''}`, number: true },
  { title: 'Pending', of: ({ pendingBytes }) => bytes(pendingBytes), number: true },
  { title: 'Reconnects', of: ({ reconnects }) => String(reconnects), number: true },
  { title: 'References', of: ({ rrefs }) => String(rrefs), number: true },
  { title: 'Contexts', of: ({ contexts }) => String(contexts), number: true },
  { title: 'Memory', of: ({ rssBytes }) => (rssBytes > 0 ? bytes(rssBytes) : ''), number: true },
];
const OPEN_COLUMNS = [
  { title: 'From', of: ({ from }) => from },
  { title: 'To', of: ({ to }) => to },
  { title: 'Function', of: ({ method }) => method, heading: true },
  { title: 'Age', of: ({ ageMs }) => time(ageMs), number: true },
];
const RREF_COLUMNS = [
  { title: 'Id', of: ({ id }) => id, heading: true },
  { title: 'Owner', of: ({ owner }) => owner },
  { title: 'Type', of: ({ type }) => type },
  { title: 'Held by', of: ({ holders }) => holders.join(', ') },
  { title: 'Created', of: ({ createdAt }) => createdAt ?? '' },
];
const CONTEXT_COLUMNS = [
  { title: 'Id', of: ({ id }) => id, heading: true },
  { title: 'On', of: ({ worker }) => worker },
  { title: 'Age', of: ({ ageMs }) => (ageMs === undefined ? '' : time(ageMs)), number: true },
  { title: 'Functions', of: ({ functions }) => String(functions), number: true },
  { title: 'Workers', of: ({ workers }) => workers.join(', ') },
];

function say(state, text) {
  if (status.dataset.state === state && status.textContent === text) return;
  status.dataset.state = state;
  status.textContent = text;
}

function drawTotals() {
  for (const tile of document.querySelectorAll('.tile')) {
    const key = tile.dataset.series;
    const values = totals.map((each) => each[key]);
    const now = values.at(-1) ?? 0;
    tile.querySelector('output').textContent = FORMATS[key](now);
    const title = tile.querySelector('h2').textContent;
    spark(
      tile.querySelector('.spark'),
      values,
      `${title}: from ${FORMATS[key](values[0] ?? 0)} to ${FORMATS[key](now)}`,
    );
  }
}

function note({ at, kind, text }) {
  const list = byId('notes');
  const item = document.createElement('li');
  item.dataset.kind = kind;
  const when = document.createElement('time');
  when.dateTime = new Date(at).toISOString();
  when.textContent = new Date(at).toLocaleTimeString();
  const words = document.createElement('span');
  words.append(when, text);
  item.append(words);
  list.prepend(item);
  // Deaths and calls that fail have room of their own: however many calls fail, who died stays.
  const same = list.querySelectorAll(kind === 'error' ? '[data-kind="error"]' : ':scope > :not([data-kind="error"])');
  for (let at = MAX_NOTES; at < same.length; at++) same[at].remove();
  document.querySelector('.empty[data-for="notes"]').hidden = true;
}

function draw(snapshot) {
  const here = snapshot.workers.filter(({ state }) => state !== 'dead' && state !== 'left').length;
  byId('group').textContent = snapshot.group;
  document.title = `${snapshot.group} · Backwire`;
  say('live', `${here}${snapshot.size === undefined ? '' : ` of ${snapshot.size}`} workers, view ${snapshot.epoch}`);
  totals = [...totals, snapshot.totals].slice(-MAX_POINTS);
  drawTotals();
  graph.draw(snapshot.workers, snapshot.links);
  const { links, linkCount } = snapshot;
  byId('ways').hidden = links.length === linkCount;
  byId('ways').textContent = `the busiest ${links.length} of ${linkCount} ways`;
  if (snapshot.callsLeftOut) byId('part').hidden = false;
  const names = snapshot.workers.map(({ name }) => name);
  timeline.add(snapshot.calls, names, snapshot.at);
  for (const each of snapshot.notes) note(each);
  fill(byId('worker-table'), 'Workers of the group', WORKER_COLUMNS, snapshot.workers);
  fill(byId('open-table'), 'Calls that are not over', OPEN_COLUMNS, snapshot.open);
  fill(byId('rref-table'), 'Remote references', RREF_COLUMNS, snapshot.rrefs);
  fill(byId('context-table'), 'Distributed autograd contexts', CONTEXT_COLUMNS, snapshot.contexts);
}

function listen() {
  const events = new EventSource('events');
  events.addEventListener('past', ({ data }) => {
    const past = JSON.parse(data);
    totals = past.totals.slice(-MAX_POINTS);
    byId('notes').replaceChildren();
    for (const each of past.notes) note(each);
  });
  events.addEventListener('look', ({ data }) => draw(JSON.parse(data)));
  events.addEventListener('lost', ({ data }) => say('lost', `the group cannot be reached: ${JSON.parse(data).text}`));
  events.addEventListener('replaced', () => {
    events.close();
    say('lost', 'too many pages of this dashboard are open, and this was the oldest: reload it to go on');
  });
  events.onerror = () => say('lost', 'the command has ended or cannot be reached');
}

/** Follows the system until somebody chooses. */
function themes() {
  const light = matchMedia('(prefers-color-scheme: light)');
  const apply = (theme) => (document.documentElement.dataset.theme = theme);
  const follow = () => apply(light.matches ? 'light' : 'dark');
  follow();
  light.addEventListener('change', follow);
  byId('theme').addEventListener('click', () => {
    light.removeEventListener('change', follow);
    apply(document.documentElement.dataset.theme === 'light' ? 'dark' : 'light');
  });
}

byId('span').textContent = String(SECONDS);
themes();
listen();
