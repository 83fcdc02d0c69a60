/** @file Calls that wait for their answers: found by id, and settled once, by an answer, a deadline, an abort or the end of their peer. */
import { runAtRoot } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { CancelReason, FrameKind } from '@backwire/wire/internal';
import { RpcError, type Executed } from '../base/errors.ts';
import { MAX_OPEN_CALLS } from '../base/limits.ts';
import { unref } from '../base/platform.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import { CallTable } from '../protocol/call-table.ts';
import type { Peer } from '../session/peer.ts';
import { aborted, leaving, timedOut } from './call-errors.ts';
import { nameCall } from './call-sites.ts';
import type { PendingCall } from './pending-call.ts';

/** A timer never sleeps longer, so that a clock that was set back does no harm. */
const MAX_SLEEP_MS = 2 ** 31 - 1;

export class OpenCalls {
  /** Calls that failed. */
  failures = 0;
  private readonly environment: ExtendedEnvironment;
  private readonly table = new CallTable<PendingCall>(MAX_OPEN_CALLS);
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Infinity;

  constructor(environment: ExtendedEnvironment) {
    this.environment = environment;
  }

  /** A monotonic time in milliseconds. */
  now(): number {
    return this.environment.now();
  }

  get size(): number {
    return this.table.size;
  }

  get(id: number): PendingCall | undefined {
    return this.table.get(id);
  }

  ids(wanted: (call: PendingCall) => boolean): number[] {
    return this.table.ids(wanted);
  }

  /** Gives a call its id. @throws RpcError 'resource-exhausted' */
  add(call: PendingCall): void {
    call.id = this.table.open(call, call.deadline);
    if (call.id === 0) throw new RpcError('resource-exhausted', 'too many calls are open', { peer: call.peer.worker });
    call.peer.awaited++;
  }

  /** Its time runs from now on. */
  watchDeadline({ deadline }: PendingCall): void {
    if (deadline < this.timerAt) this.arm(deadline);
  }

  /** Whether an answer to this call of this peer is still wanted. */
  expects(id: number, peer: Peer): boolean {
    return this.table.get(id)?.peer === peer;
  }

  /**
   * Ends a call whose caller has all that it wants of it, and tells the peer. That is no failure: it is counted, and shown to those who
   * watch, as a call that went well. Those who follow it are told that no answer comes.
   */
  leave(id: number, error: (executed: Executed) => RpcError): void {
    const call = this.take(id);
    if (call === undefined) return;
    const executed = this.withdraw(call, CancelReason.UNWANTED);
    this.environment.observers.current?.settled?.(call, undefined);
    if (call.follower !== undefined) this.environment.extensions.settled(call.follower, { error: error(executed) });
    call.answer.resolve(undefined);
  }

  /** Fails an open call of this side's making, and tells the peer when it may have it. */
  cancel(id: number, error: (executed: Executed) => unknown, why: CancelReason = CancelReason.UNWANTED): void {
    const call = this.take(id);
    if (call === undefined) return;
    const executed = this.withdraw(call, why);
    this.reject(call, error(executed));
  }

  failed(id: number, error: unknown): void {
    const call = this.take(id);
    if (call !== undefined) this.reject(call, error);
  }

  /**
   * Fails every call to a peer. One that is merely out of reach may get them yet, when a link comes up again: what nobody waits for any
   * more is taken back behind them.
   */
  failAll(peer: Peer, error: (executed: Executed) => RpcError, isGone = false): void {
    for (const id of this.table.ids((call) => call.peer === peer)) {
      const call = this.take(id);
      if (call === undefined) continue;
      let executed = this.stage(call);
      if (call.seq === 0) call.withdrawn = true;
      if (executed === 'no') this.undelivered(call);
      else if (!isGone && peer.state !== 'gone') executed = this.withdraw(call, CancelReason.UNWANTED);
      this.reject(call, error(executed));
    }
  }

  /** A peer takes no more calls: those without a number have certainly not run there, and another worker may do them. */
  drained(peer: Peer): void {
    for (const id of this.table.ids((call) => call.peer === peer && call.seq === 0)) {
      const call = this.take(id);
      if (call === undefined) continue;
      call.withdrawn = true;
      this.undelivered(call);
      this.reject(call, leaving(peer.worker));
    }
  }

  /** Fails every call there is. */
  failEverything(error: (executed: Executed, peer: Peer) => unknown): void {
    for (const id of this.table.ids(() => true)) {
      const call = this.take(id);
      if (call !== undefined) this.reject(call, error(this.stage(call), call.peer));
    }
  }

  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  /** Closes a call; whoever gets it settles it. */
  take(id: number): PendingCall | undefined {
    const call = this.table.take(id);
    if (call === undefined) return undefined;
    call.peer.awaited--;
    call.unwatch();
    if (call.parent !== undefined) call.parent.origin.slots.callBack(call.parent);
    return call;
  }

  resolve(call: PendingCall, value: unknown, reply: Message | undefined): void {
    this.environment.observers.current?.settled?.(call, undefined);
    if (call.follower !== undefined)
      this.environment.extensions.settled(call.follower, reply === undefined ? {} : { reply });
    call.answer.resolve(value);
  }

  reject(call: PendingCall, error: unknown): void {
    this.failures++;
    nameCall(error, call.label.name, call.peer.worker, call.site);
    this.environment.observers.current?.settled?.(call, error);
    if (call.follower !== undefined) this.environment.extensions.settled(call.follower, { error });
    call.answer.reject(error);
  }

  abort(id: number, reason: unknown): void {
    const peer = this.table.get(id)?.peer;
    this.cancel(id, (executed) => aborted(reason, executed, peer?.worker));
  }

  private arm(at: number): void {
    clearTimeout(this.timer);
    this.timerAt = at;
    const wait = Math.max(1, Math.min(Math.ceil(at - this.environment.now()), MAX_SLEEP_MS));
    this.timer = runAtRoot(() => setTimeout(() => this.sweep(), wait));
    unref(this.timer);
  }

  private sweep(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    for (const id of this.table.expired(this.environment.now())) {
      const call = this.table.get(id);
      if (call === undefined) continue;
      const error = (executed: Executed): RpcError => timedOut(call.timeoutMs, executed, call.peer.worker);
      this.cancel(id, error, CancelReason.TIME_OVER);
    }
    const next = this.table.nextDeadline();
    if (next !== Infinity) this.arm(next);
  }

  /** Takes back what the peer need not have: an unsent frame, storages on their way, either way. Says whether the handler can have run. */
  private withdraw(call: PendingCall, why: CancelReason): Executed {
    if (call.seq === 0) {
      call.withdrawn = true;
      this.undelivered(call);
      return 'no';
    }
    const { receiver, sender } = call.peer;
    const incomplete = call.hasBodies && sender.dropBodies(call.seq);
    sender.sendId(FrameKind.CANCEL, call.id, why);
    if (call.answering || call.mode === 'stream') receiver.giveUpAnswers(call.id);
    return incomplete ? 'no' : 'maybe';
  }

  /** What has a number is kept for a link that may yet come up: only what has none, or came too late for one that leaves, certainly never runs. */
  private stage(call: PendingCall): Executed {
    return call.seq === 0 || call.seq > call.peer.lastServed ? 'no' : 'maybe';
  }

  /** A call certainly never arrives: what was drawn for it is taken back. */
  undelivered(call: PendingCall): void {
    this.takeBack(call.peer, call.header);
  }

  takeBack(peer: Peer, header: RpcMessage['header']): void {
    if (header !== undefined) this.environment.extensions.undelivered(peer.worker, header);
  }
}
