/** @file The order of calls: those of one caller start as they were sent, but for calls that want no order. */
import { FrameFlag } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import type { InboundCall } from './inbound-call.ts';
import type { Peer } from '../session/peer.ts';

function isOrdered({ flags }: InboundCall): boolean {
  return (flags & FrameFlag.UNORDERED) === 0;
}

/** A call that waits for its turn. */
interface Turn {
  readonly call: InboundCall;
  /** Set once its storages and references are there. */
  start: (() => void) | undefined;
}

/** Calls of each peer that cannot start yet, and those behind them. A caller with nothing that waits has no list. */
export class CallOrder {
  private readonly lists = new Map<Peer, Turn[]>();

  /** Whether a call of this peer that is ready may start at once. */
  isFree(peer: Peer): boolean {
    return this.lists.size === 0 || !this.lists.has(peer);
  }

  /** Keeps the place of a call whose storages are on their way. */
  reserve(call: InboundCall): void {
    if (isOrdered(call)) this.listOf(call.peer).push({ call, start: undefined });
  }

  /**
   * A call is here. It starts when those before it have started and `pending` has settled; a rejection there refuses it.
   */
  ready(
    call: InboundCall,
    start: () => void,
    pending: readonly Promise<unknown>[],
    refuse: (error: RpcError) => void,
  ): void {
    const list = this.lists.get(call.peer);
    const waits = isOrdered(call) && list !== undefined && list.length > 0;
    if (pending.length === 0 && !waits) {
      start();
      return;
    }
    call.origin.open.set(call.id, call);
    if (!isOrdered(call)) {
      Promise.all(pending).then(start, (error: unknown) => refuse(RpcError.from(error)));
      return;
    }
    const turns = list ?? this.listOf(call.peer);
    let turn = turns.find((waiting) => waiting.call === call);
    if (turn === undefined) turns.push((turn = { call, start: undefined }));
    const mine = turn;
    const go = (): void => {
      mine.start = start;
      this.advance(call.peer);
    };
    if (pending.length === 0) go();
    else Promise.all(pending).then(go, (error: unknown) => refuse(RpcError.from(error)));
  }

  /** A call that waits will not start. */
  drop(call: InboundCall): void {
    const turns = this.lists.get(call.peer);
    const at = turns?.findIndex((turn) => turn.call === call) ?? -1;
    if (turns === undefined || at < 0) return;
    turns.splice(at, 1);
    this.advance(call.peer);
  }

  private listOf(peer: Peer): Turn[] {
    let turns = this.lists.get(peer);
    if (turns === undefined) this.lists.set(peer, (turns = []));
    return turns;
  }

  private advance(peer: Peer): void {
    const turns = this.lists.get(peer);
    if (turns === undefined) return;
    while (turns[0]?.start !== undefined) (turns.shift() as Turn).start?.();
    if (turns.length === 0) this.lists.delete(peer);
  }
}
