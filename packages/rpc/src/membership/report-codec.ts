/** @file What members tell each other while somebody is in doubt, as bytes: lives travel as ids and incarnations. */
import { controlProto, decodeProto, encodeProto } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import { decodeView, encodeView, lifeOf, MAX_MEMBERS, type Life, type View } from '../protocol/membership.ts';
import type { Report } from '../protocol/opinions.ts';

type Ids = controlProto.MemberReport['hears'];

/** `view` goes along for a receiver that knows an older one. */
export function encodeReport(report: Report, members: View, view: View | undefined): Uint8Array {
  const known = tableOf(members).ids;
  const ids = (lives: readonly Life[]): Ids => lives.flatMap((life) => known.get(life) ?? []);
  return encodeProto(controlProto.MemberReport, {
    epoch: report.epoch,
    store: report.store,
    hears: ids(report.hears),
    doubts: ids(report.doubts),
    proved: ids(report.proved),
    gone: ids(report.gone),
    decided: ids(report.decided),
    confirmed: ids(report.confirmed),
    asks: report.asks,
    view: view === undefined ? new Uint8Array(0) : encodeView(view),
  });
}

/** Lives that `members` does not have are left out: what is said of them means nothing here. @throws RpcError, WireError */
export function decodeReport(payload: Uint8Array, members: View): { report: Report; view: View | undefined } {
  const { epoch, store, hears, doubts, proved, gone, decided, confirmed, asks, view } = decodeProto(
    controlProto.MemberReport,
    payload,
    'report',
  );
  const known = tableOf(members).lives;
  const lives = (ids: Ids): Life[] => {
    if (ids.length > MAX_MEMBERS) throw new RpcError('protocol-error', `a report of ${ids.length} members`);
    return ids.flatMap(({ worker, incarnation }) => known.get(keyOf(worker, incarnation)) ?? []);
  };
  return {
    report: {
      epoch,
      store,
      hears: lives(hears),
      doubts: lives(doubts),
      proved: lives(proved),
      gone: lives(gone),
      decided: lives(decided),
      confirmed: lives(confirmed),
      asks,
    },
    view: view.length === 0 ? undefined : decodeView(view),
  };
}

interface Table {
  readonly ids: ReadonlyMap<Life, Ids[number]>;
  readonly lives: ReadonlyMap<string, Life>;
}

const tables = new WeakMap<View, Table>();

function tableOf(view: View): Table {
  const known = tables.get(view);
  if (known !== undefined) return known;
  const table = {
    ids: new Map(
      view.members.map((member) => [lifeOf(member), { worker: member.id, incarnation: member.incarnation }]),
    ),
    lives: new Map(view.members.map((member) => [keyOf(member.id, member.incarnation), lifeOf(member)])),
  };
  tables.set(view, table);
  return table;
}

function keyOf(worker: number, incarnation: number): string {
  return `${worker}/${incarnation}`;
}
