/** @file One text for worlds that behave alike: tables without their order, and users that are interchangeable renamed. */
import type { GlobalId, Site } from '../src/protocol/ids.ts';
import type { WorkerState } from '../src/protocol/worker.ts';
import type { Packet, World } from './model.ts';

/** For each site its new number. */
type Renaming = readonly Site[];

const renamings = new Map<string, readonly Renaming[]>();
/** For a part of a world, and each renaming, its number. */
const ofWorker = new WeakMap<WorkerState<true>, string[]>();
const ofQueue = new WeakMap<readonly Packet[], string[]>();
/** Parts recur in many worlds: each gets a short number, so that the text of a world is short. */
const numbers = new Map<string, string>();

/** The smallest text over all renamings of the users from `firstFree` on. */
export function encodeWorld(world: World, firstFree: Site): string {
  const all = allRenamings(world.workers.length, firstFree);
  let smallest = encode(world, all[0] as Renaming, 0, all.length);
  for (let i = 1; i < all.length; i++) {
    const text = encode(world, all[i] as Renaming, i, all.length);
    if (text < smallest) smallest = text;
  }
  const { ownerHandle, created, freed, forksLeft, crashesLeft, duplicatesLeft, lossesLeft } = world;
  const flags = Number(ownerHandle) + 2 * Number(created) + 4 * Number(freed);
  return `${smallest}#${flags},${forksLeft},${crashesLeft},${duplicatesLeft},${lossesLeft}`;
}

function encode(world: World, to: Renaming, index: number, count: number): string {
  const { workers, channels, epochs, deaths } = world;
  const size = workers.length;
  const parts = new Array<string>(size + size * size);
  for (let i = 0; i < size; i++) {
    const state = workers[i];
    const at = to[i] as Site;
    parts[at] = state === undefined ? 'x' : `${numberOfWorker(state, to, index, count)}@${epochs[i] ?? 0}`;
    for (let j = 0; j < size; j++) {
      const queue = channels[i * size + j] as readonly Packet[];
      parts[size + at * size + (to[j] as Site)] = queue.length === 0 ? '' : numberOfQueue(queue, to, index, count);
    }
  }
  return deaths.length === 0 ? parts.join() : `${parts.join()}#${deaths.map((site) => to[site]).join()}`;
}

function numberOfWorker(state: WorkerState<true>, to: Renaming, index: number, count: number): string {
  let known = ofWorker.get(state);
  if (known === undefined) ofWorker.set(state, (known = new Array<string>(count)));
  return (known[index] ??= numberOf(encodeWorker(state, to)));
}

function numberOfQueue(queue: readonly Packet[], to: Renaming, index: number, count: number): string {
  let known = ofQueue.get(queue);
  if (known === undefined) ofQueue.set(queue, (known = new Array<string>(count)));
  return (known[index] ??= numberOf(queue.map((packet) => encodePacket(packet, to)).join('+')));
}

function numberOf(text: string): string {
  let known = numbers.get(text);
  if (known === undefined) numbers.set(text, (known = numbers.size.toString(36)));
  return known;
}

function encodeWorker({ drawn, owner, user, fence }: WorkerState<true>, to: Renaming): string {
  const entries = owner.entries.map(({ id, phase }) => `${ref(id, to)}${phase}`);
  const forks = owner.forks.map(({ id, holder }) => `${ref(id, to)}@${to[holder]}`);
  const tombs = owner.tombstones.map((id) => ref(id, to));
  const held = user.forks.map(
    ({ id, parent, phase, released, failure }) =>
      `${ref(id, to)}<${to[parent]}${phase}${released ? '-' : ''}${failure?.code ?? ''}`,
  );
  const children = user.children.map(({ id, parent, at }) => `${ref(id, to)}<${ref(parent, to)}@${to[at]}`);
  const gate = [
    sites(fence.dead, to),
    sites(fence.waiting, to),
    fence.fenceEpoch,
    fence.asked
      .map(([site, epoch]) => `${to[site]}:${epoch}`)
      .sort()
      .join(),
  ];
  return [drawn, ...[entries, forks, tombs, held, children].map((list) => list.sort().join()), ...gate].join('/');
}

function encodePacket(packet: Packet, to: Renaming): string {
  switch (packet.kind) {
    case 'user-delete':
      return `d${packet.forks.map((fork) => ref(fork, to)).join()}`;
    case 'fence':
    case 'fence-ack':
      return `${packet.kind}${packet.epoch}`;
    case 'fence-done':
      return `${packet.kind}${sites(packet.dead, to)}`;
    case 'fork-ack':
      return `${packet.kind}${ref(packet.fork, to)}${packet.refused?.code ?? ''}`;
    default:
      return `${packet.kind}${ref(packet.fork, to)}`;
  }
}

function ref({ site, local }: GlobalId, to: Renaming): string {
  return `${to[site]}.${local}`;
}

function sites(list: readonly Site[], to: Renaming): string {
  return list
    .map((site) => to[site])
    .sort()
    .join();
}

/** All ways to rename the sites from `firstFree` on among themselves. */
function allRenamings(count: number, firstFree: Site): readonly Renaming[] {
  const key = `${count}/${firstFree}`;
  let known = renamings.get(key);
  if (known === undefined) {
    const fixed = Array.from({ length: firstFree }, (_, site) => site);
    const free = Array.from({ length: count - firstFree }, (_, i) => firstFree + i);
    known = permutations(free).map((order) => [...fixed, ...order]);
    renamings.set(key, known);
  }
  return known;
}

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) => permutations(items.filter((_, j) => j !== i)).map((rest) => [item, ...rest]));
}
