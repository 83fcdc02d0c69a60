/** @file What a world consists of: its workers, with the production classes in them, and what there is beside them. */
import { canonical } from '@backwire/testing';
import type { Bounds } from './bounds.ts';
import type { Wires } from './wires.ts';
import { Agreement } from '../../src/protocol/agreement.ts';
import { EMPTY_VIEW, lifeOf, Membership, type Life, type View } from '../../src/protocol/membership.ts';
import { ALL_AGREEMENT_RULES } from '../../src/protocol/opinions.ts';
import type { Claim } from '../../src/protocol/parts.ts';

const LEASE_MS = 10;
/** Waits are longer than a lease and shorter than any other limit. */
export const WAIT_MS = 11;
const LONG_MS = 1e9;

export interface Worker {
  readonly life: Life;
  readonly rank: number;
  alive: boolean;
  /** How it ended: killed, put out by the others, or by itself. */
  end: 'killed' | 'fenced' | 'stop' | undefined;
  stalled: boolean;
  readonly agreement: Agreement;
  readonly membership: Membership;
  /** Its lease ran out while it did not reach the store. */
  leaseless: boolean;
  parked: { number: number; removed: readonly Life[] }[];
}

/** What a world knows beside its workers. */
export interface Rest {
  readonly wires: Wires;
  readonly claims: Map<Life, Claim>;
  readonly happened: Set<string>;
  view: View;
  storeIsUp: boolean;
  storeIsEmpty: boolean;
  cut: boolean;
  clock: number;
  wrong: string | undefined;
}

/** All members know each other, and nothing has happened. */
export function beginning(bounds: Bounds): { workers: Worker[]; view: View } {
  const members = Array.from({ length: bounds.size }, (_, id) => ({
    name: `w${id}`,
    id,
    incarnation: id + 1,
    endpoints: [{ transport: 'tcp', domain: '', address: `tcp://${id}` }],
    host: `h${id}`,
    pid: 1,
    extensions: [],
    reports: true,
  }));
  const view = Object.freeze({ ...EMPTY_VIEW, epoch: bounds.size, founder: 'w0#1', members });
  const workers = members.map((member, rank): Worker => {
    const life = lifeOf(member);
    const times = { leaseMs: LEASE_MS, settleMs: LEASE_MS, deadMs: LONG_MS, busyDeadMs: LONG_MS, askMs: LONG_MS };
    const agreement = new Agreement(life, times, { ...ALL_AGREEMENT_RULES, ...bounds.rules });
    const membership = new Membership(member);
    membership.update(view);
    agreement.view(view, [], 0);
    for (const other of members) if (other !== member) agreement.opinion(lifeOf(other), 'heard', 0);
    agreement.settle(0);
    return {
      life,
      rank,
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

export function nameOf({ rank }: Worker): string {
  return `w${rank}`;
}

export function isOn(worker: Worker): boolean {
  return worker.alive && !worker.stalled;
}

export function reaches({ cut }: Bounds, rest: Rest, a: Worker, b: Worker | 'store'): boolean {
  if (!rest.cut) return true;
  const other = b === 'store' ? b : b.rank;
  return cut?.some((pair) => pair.includes(a.rank) && pair.includes(other)) !== true;
}

/** All that makes a worker differ from itself in another world. */
export function textOf(worker: Worker, clock: number): string {
  const { alive, end, stalled, leaseless, agreement, membership, parked } = worker;
  const inside = [agreement.snapshot(clock), membership.number, membership.stored.epoch, parked];
  return canonical([alive, end, stalled, leaseless, alive ? inside : 0]);
}
