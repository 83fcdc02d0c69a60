/** @file One text for worlds that behave alike: tables without their order, and users that are interchangeable renamed. */
import type { GlobalId, Site } from '../src/protocol/ids.ts';
import type { WorkerState } from '../src/protocol/worker.ts';
import type { Packet, World } from './model.ts';

/** For each site its new number. */
type Renaming = readonly Site[];

const renamings = new Map<string, readonly Renaming[]>();
const ofWorker = new WeakMap<WorkerState<true>, string[]>();
const ofQueue = new WeakMap<readonly Packet[], string[]>();

/** The smallest text over all renamings of the users from `firstFree` on. */
export function encodeWorld(world: World, firstFree: Site): string {
  let smallest: string | undefined;
  for (const [index, renaming] of allRenamings(world.workers.length, firstFree).entries()) {
    const text = encode(world, renaming, index);
    if (smallest === undefined || text < smallest) smallest = text;
  }
  return smallest ?? '';
}

function encode(world: World, to: Renaming, index: number): string {
  const count = world.workers.length;
  const workers = new Array<string>(count);
  const channels = new Array<string>(count ** 2);
  const epochs = new Array<number>(count);
  for (let i = 0; i < count; i++) {
    const state = world.workers[i];
    const at = to[i] as Site;
    workers[at] = state === undefined ? 'x' : cached(ofWorker, state, index, () => encodeWorker(state, to));
    epochs[at] = world.epochs[i] ?? 0;
    for (let j = 0; j < count; j++) {
      const queue = world.channels[i * count + j] ?? [];
      channels[at * count + (to[j] as Site)] =
        queue.length === 0
          ? ''
          : cached(ofQueue, queue, index, () => queue.map((packet) => encodePacket(packet, to)).join('+'));
    }
  }
  const rest = [
    world.deaths.map((site) => to[site]).join(),
    Number(world.ownerHandle) + 2 * Number(world.created) + 4 * Number(world.freed),
    world.forksLeft,
    world.crashesLeft,
    world.duplicatesLeft,
    world.lossesLeft,
  ];
  return `${workers.join('|')}#${channels.join('|')}#${epochs.join()}#${rest.join(';')}`;
}

function cached<K extends object>(cache: WeakMap<K, string[]>, key: K, index: number, make: () => string): string {
  let texts = cache.get(key);
  if (texts === undefined) {
    texts = [];
    cache.set(key, texts);
  }
  return (texts[index] ??= make());
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
