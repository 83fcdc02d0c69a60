/** @file The group before anything has happened: all members know each other. */
import type { Bounds } from './bounds.ts';
import type { Worker } from './worker.ts';
import { Agreement } from '../../src/protocol/agreement.ts';
import { EMPTY_VIEW, lifeOf, Membership, type Life, type View } from '../../src/protocol/membership.ts';
import { ALL_AGREEMENT_RULES } from '../../src/protocol/opinions.ts';

const LEASE_MS = 10;
const LONG_MS = 1e9;

export function beginning({ size, rules }: Bounds): { readonly workers: readonly Worker[]; readonly view: View } {
  const members = Array.from({ length: size }, (_, id) => ({
    name: `w${id}`,
    id,
    incarnation: id + 1,
    endpoints: [{ transport: 'tcp', domain: '', address: `tcp://${id}` }],
    host: `h${id}`,
    pid: 1,
    extensions: [],
    reports: true,
  }));
  const view = Object.freeze({ ...EMPTY_VIEW, epoch: size, founder: 'w0#1', members });
  const workers = members.map((member, rank): Worker => {
    const life = lifeOf(member);
    const times = { leaseMs: LEASE_MS, settleMs: LEASE_MS, deadMs: LONG_MS, busyDeadMs: LONG_MS, askMs: LONG_MS };
    const agreement = new Agreement(life, times, { ...ALL_AGREEMENT_RULES, ...rules });
    const membership = new Membership(member);
    membership.update(view);
    Object.freeze(membership.view);
    agreement.view(view, [], 0);
    for (const other of members) if (other !== member) agreement.opinion(lifeOf(other), 'heard', 0);
    agreement.settle(0);
    return {
      life,
      rank,
      clock: 0,
      alive: true,
      end: undefined,
      stalled: false,
      agreement,
      membership,
      leaseless: false,
      parked: [],
    };
  });
  return { workers, view };
}

/** The rank in the name of a life. */
export function rankOf(life: Life): number {
  return Number(life.slice(1, life.indexOf('#')));
}

/** A bit for each rank. */
export function maskOf(lives: Iterable<Life>): number {
  let mask = 0;
  for (const life of lives) mask |= 1 << rankOf(life);
  return mask;
}
