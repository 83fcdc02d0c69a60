/** @file What must hold in every state of a world, and in those in which everything has come to rest. */
import type { Bounds } from './bounds.ts';
import { isOn, reaches, type Rest, type Worker } from './state.ts';
import { lifeOf, type Life } from '../../src/protocol/membership.ts';

/** What contradicts what has to hold in every state. */
export function contradiction(bounds: Bounds, workers: readonly Worker[]): string | undefined {
  const live = workers.filter(({ alive }) => alive);
  for (const a of live)
    for (const b of live) {
      const [x, y] = [a, b].map(({ membership }) => [...membership.unwritten.keys()]) as [Life[], Life[]];
      if (a.membership.stored.epoch !== b.membership.stored.epoch || x.length > y.length) continue;
      if (!x.every((life) => y.includes(life))) return `${a.life} decided on ${x.join()}, ${b.life} on ${y.join()}`;
    }
  for (const { end, life } of workers) {
    if (end === undefined || end === 'killed' || bounds.cut !== undefined) continue;
    return `${life} was put out or stopped (${end}), and nothing was cut`;
  }
  return undefined;
}

/** What is wrong with a world in which everything has come to rest. */
export function faultAtRest(bounds: Bounds, workers: readonly Worker[], rest: Rest): string | undefined {
  const live = workers.filter(isOn);
  for (const worker of live) {
    const { life, agreement, membership, parked } = worker;
    const alive = sideOf(bounds, rest, worker, live).map((each) => each.life);
    const has = membership.view.members.map(lifeOf);
    const dead = has.find((member) => !alive.includes(member));
    const lone = live.length === 1 && bounds.size === 2;
    if (dead !== undefined && !lone) return `${life} counts ${dead} as a member`;
    const missing = alive.find((other) => !has.includes(other));
    if (missing !== undefined) return `${life} does not count ${missing} as a member`;
    if (parked.length > 0) return `${life} has not answered a fence`;
    if (!rest.storeIsUp || !reaches(bounds, rest, worker, 'store')) continue;
    if (membership.unwritten.size > 0) return `${life} has not written what was decided`;
    if (!rest.cut && agreement.isTroubled(rest.clock)) return `${life} is in doubt still`;
    if (membership.stored.epoch !== rest.view.epoch) return `${life} does not know the view`;
  }
  return undefined;
}

/** Those that a worker reaches, or who are reached by one of those, and so on; through the store too. */
function sideOf(bounds: Bounds, rest: Rest, worker: Worker, live: readonly Worker[]): Worker[] {
  const side: (Worker | 'store')[] = [worker];
  const other: (Worker | 'store')[] = [...live.filter((each) => each !== worker), 'store'];
  const touch = (a: Worker | 'store', b: Worker | 'store'): boolean =>
    a === 'store' ? b !== 'store' && reaches(bounds, rest, b, a) : reaches(bounds, rest, a, b);
  for (const a of side)
    for (const b of [...other]) if (!side.includes(b) && touch(a, b) && (rest.storeIsUp || b !== 'store')) side.push(b);
  return side.filter((each) => each !== 'store');
}
