/**
 * @file The texts by which states are told apart: equal texts, one state. `exact` texts have everything that an object holds; `reduced`
 * ones leave out what nobody ever reads again, so that far fewer states are told apart.
 */
import { canonical } from '@backwire/testing';
import type { StoreState, Worker } from './worker.ts';
import type { Packet } from './packet.ts';
import { lifeOf, type View } from '../../src/protocol/membership.ts';
import type { Report } from '../../src/protocol/opinions.ts';

export interface Forms {
  worker(worker: Worker): string;
  store(store: StoreState): string;
  packet(packet: Packet): string;
  /** Whether what will never be read on a wire is taken off it. */
  readonly forgets: boolean;
}

/** All fields of all objects, clocks as they are, maps and sets in the order in which they were filled: nothing is taken for the same that is not. */
export const exact: Forms = {
  worker: everything,
  store: everything,
  packet: everything,
  forgets: false,
};

/**
 * Left out, and why nobody can tell:
 *
 * - Of a worker that is over, all but how it ended: it does nothing any more, and others see only that it is gone.
 * - Times: of each only whether a limit has passed that can pass in these worlds (`Agreement.snapshot`). The worker that stands for all of one
 *   text has a clock of its own, and goes on by that.
 * - Whether a report that has come asked for something: that was answered when it came, and is not looked at again.
 * - What another was told last, if it neither listens nor was asked yet: whoever asks is told whatever it is, and so is whoever is asked for
 *   the first time.
 * - The order of fences that wait, of departures and of claims, and fences that wait twice: all are taken as sets.
 * - Of a view all but its epoch, its members, and who has put out whom: all views of a world come from one.
 * - Former members: those of the beginning who are no members of the view. What membership has decided: what the agreement has.
 *
 * Workers are not renamed, although those of one side of a cut look alike: the rule asks who is older, and the search takes what is under way
 * in the order of ranks. `agreement.explore.test.ts` compares both forms: they reach the same verdicts, and find the same missing rules.
 */
export const reduced: Forms = {
  worker: (worker) => {
    const { rank, alive, end, stalled, leaseless, agreement, membership, parked, clock } = worker;
    if (!alive) return `${rank} ${end}`;
    const snapshot = agreement.snapshot(clock) as Snapshot;
    const known = snapshot.known.map(([life, opinion, report, listens, told, asked]) => [
      life,
      opinion,
      report && { ...report, asks: undefined },
      listens,
      listens || asked ? told : '',
      asked,
    ]);
    const fences = new Set(parked.map((fence) => canonical(fence)));
    const stored = viewText(membership.stored);
    return canonical([rank, stalled, leaseless, { ...snapshot, known }, membership.number, stored, fences]);
  },
  store: ({ view, isEmpty, claims }) => canonical([viewText(view), isEmpty, claims]),
  packet: (packet) =>
    canonical(packet.kind === 'fence' ? packet : { ...packet, view: packet.view && viewText(packet.view) }),
  forgets: true,
};

interface Snapshot {
  readonly known: readonly (readonly [
    life: string,
    opinion: string,
    report: Report | undefined,
    listens: boolean,
    told: string,
    asked: boolean,
  ])[];
}

const viewTexts = new WeakMap<View, string>();

function viewText(view: View): string {
  let text = viewTexts.get(view);
  if (text === undefined) {
    const departed = view.departed.map((one) => `${lifeOf(one)} ${one.how} ${one.by}`);
    text = `${view.epoch}: ${view.members.map(lifeOf).join()}; ${departed.sort().join()}`;
    viewTexts.set(view, text);
  }
  return text;
}

function everything(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' ? JSON.stringify(value) : String(value);
  if (value instanceof Map)
    return `M{${[...(value as Map<unknown, unknown>)].map(([key, item]) => `${everything(key)}=>${everything(item)}`).join()}}`;
  if (value instanceof Set) return `S{${[...(value as Set<unknown>)].map(everything).join()}}`;
  if (Array.isArray(value)) return `[${value.map(everything).join()}]`;
  return `{${Object.entries(value)
    .map(([key, item]) => `${key}:${everything(item)}`)
    .join()}}`;
}
