/** @file One incoming call: what its handler sees of it, and how it is cancelled. */
import { ambient, freeAll, runAtRoot, type Scoped } from '@backwire/tensor/internal';
import type { Unclaimed } from '../extensions/value-context.ts';
import { RpcError, type Executed } from '../base/errors.ts';
import type { Definition } from '../base/definitions.ts';
import type { IncomingTensors } from '@backwire/wire/internal';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import type { Claim } from '../session/receiver.ts';
import type { Share } from './concurrency-limit.ts';
import { MAX_TIMER_MS, unref } from '../base/platform.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

/** What `callContext()` gives: who made the call that is handled here, and how long that still waits for it. */
export interface CallContext {
  /** Aborts when the caller cancels, its deadline passes, it dies, or this agent closes. */
  readonly signal: AbortSignal;
  /** Milliseconds until the caller's deadline; Infinity when it has none. */
  remainingMs(): number;
  /** The worker that made the call. */
  readonly caller: WorkerInfo;
}

/**
 * States of an incoming call:
 *
 * - `assembling`: storages are still arriving;
 * - `waiting`: for references in its arguments, an earlier call, or a slot;
 * - `running`: its handler was started;
 * - `over`: answered, cancelled or refused; what the handler still gives is dropped.
 */
export type InboundState = 'assembling' | 'waiting' | 'running' | 'over';

/**
 * Lets the handler that is current give its slot back until `promise` settles: for waits that another call has to end. Outside of a
 * handler it is the promise itself.
 */
export function withoutSlot<T>(promise: Promise<T>): Promise<T> {
  const { call } = ambient();
  if (!(call instanceof InboundCall) || call.state !== 'running') return promise;
  const { slots } = call.origin;
  slots.callOut(call);
  return promise.finally(() => slots.callBack(call));
}

/** Whose a call is, and who runs it. */
export interface CallOrigin {
  readonly peer: Peer;
  /** Its calls that are not over, by their numbers. */
  readonly open: Map<number, InboundCall>;
  readonly slots: SlotLender;
  /** What its calls have of the slots. */
  readonly share: Share;
  /** The name behind a number of the caller. @throws RpcError 'decode-error' */
  nameOf(fn: number): string;
  /** The definition behind it. @throws RpcError */
  definition(fn: number): Definition;
  /** The storages of a call are here. */
  assembled(call: InboundCall, arrived: IncomingFrame, tensors: IncomingTensors): void;
}

/** Gives the slots in which handlers run. */
export interface SlotLender {
  /** A handler waits for an outgoing call: it gives its slot back. */
  callOut(call: InboundCall): void;
  /** One of the outgoing calls of a handler is over; it goes on, even when all slots are taken by now. */
  callBack(call: InboundCall): void;
}

const NO_ARGS: readonly unknown[] = Object.freeze([]);

export class InboundCall implements CallContext, Claim {
  readonly origin: CallOrigin;
  /** The caller's number for it; below zero for one that has none, since it wants no answer. */
  readonly id: number;
  readonly flags: number;
  readonly deadline: number;
  /** What it counts in the peer's credit. */
  readonly bytes: number;
  state: InboundState = 'waiting';
  /** When its frame came; on the clock of `deadline`. */
  arrivedAt = 0;
  /** The caller's trace context, as it sent it. */
  trace: Uint8Array | undefined;
  definition: Definition | undefined;
  args: readonly unknown[] = NO_ARGS;
  /** Gives back what its handler has not taken: the references in its arguments, or those of a message that was never decoded. */
  unclaimed: Unclaimed | undefined;
  /** What in its arguments was here before they came: no scope's to free. */
  found: ReadonlySet<unknown> | undefined;
  /** What its answer holds that was made for it: freed when that is written. */
  private spent: Set<Scoped> | undefined;
  /** Outgoing calls its handler waits for. */
  outgoing = 0;
  /** Whether it counts among the handlers that are not finished; meetings, which wait for others by design, do not. */
  counted = false;
  /** Takes it out of the line for a slot, where it waits for one. */
  leaveLine: (() => void) | undefined;
  /** Whether it counts as running now. */
  holdsSlot = false;
  /** The caller's idempotency key, */
  key: string | undefined;
  /** and what tells the arguments that came with it from others. */
  digest = '';
  /** Whether its handler has looked at its limits, or has made calls that have them: it may have done less than it would have. */
  watched = false;
  /** Whether its answer is on its way: there is no other. */
  answered = false;
  /** Whether its stream has begun: the end of that is its answer. */
  streamed = false;
  /** Items the consumer of a stream allows. */
  itemCredit = 0;
  /** Called when `itemCredit` grows or the call is cancelled. */
  wake: (() => void) | undefined;
  private controller: AbortController | undefined;
  private timer: NodeJS.Timeout | undefined;
  private reason: unknown;

  constructor(origin: CallOrigin, id: number, flags: number, deadline: number, bytes: number) {
    this.origin = origin;
    this.id = id;
    this.flags = flags;
    this.deadline = deadline;
    this.bytes = bytes;
  }

  get peer(): Peer {
    return this.origin.peer;
  }
  get caller(): WorkerInfo {
    return this.origin.peer.worker;
  }

  /** Made when it is first asked for: most handlers never do, and one per call would cost a multiple of the call. */
  get signal(): AbortSignal {
    this.watched = true;
    if (this.controller !== undefined) return this.controller.signal;
    const controller = new AbortController();
    this.controller = controller;
    if (this.reason !== undefined) controller.abort(this.reason);
    else if (this.leftMs() <= 0) this.expire();
    else if (this.deadline !== Infinity && this.state !== 'over') {
      this.timer = runAtRoot(() => setTimeout(() => this.expire(), Math.min(this.leftMs(), MAX_TIMER_MS)));
      unref(this.timer);
    }
    return controller.signal;
  }

  remainingMs(): number {
    this.watched = true;
    return this.leftMs();
  }

  private leftMs(): number {
    return this.deadline === Infinity ? Infinity : Math.max(0, this.deadline - performance.now());
  }

  assembled(arrived: IncomingFrame, tensors: IncomingTensors): void {
    this.origin.assembled(this, arrived, tensors);
  }

  /** The caller does not want it any more, or is gone. */
  abort(reason: unknown): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.controller?.abort(reason);
    this.wake?.();
    this.leave();
  }

  get aborted(): boolean {
    return this.reason !== undefined;
  }
  get abortReason(): unknown {
    return this.reason;
  }

  /** For the handler, whose they are from now on. */
  takeArgs(): readonly unknown[] {
    const { args } = this;
    this.args = NO_ARGS;
    this.unclaimed = undefined;
    return args;
  }

  /** Takes what is to be freed when it is answered. */
  get spending(): Set<Scoped> {
    return (this.spent ??= new Set());
  }

  /** The handler is done, or will never run; timers end. */
  finish(): void {
    this.state = 'over';
    if (this.timer !== undefined) clearTimeout(this.timer);
    this.leave();
    const { unclaimed } = this;
    this.takeArgs();
    if (this.spent !== undefined) freeAll(this.spent);
    if (unclaimed !== undefined) for (const give of unclaimed) give();
  }

  private leave(): void {
    const { leaveLine } = this;
    this.leaveLine = undefined;
    leaveLine?.();
  }

  /** That its time is over. */
  late(executed: Executed): RpcError {
    return new RpcError('deadline-exceeded', 'the time that the caller gave is over', { executed, peer: this.caller });
  }

  private expire(): void {
    this.abort(this.late('yes'));
  }
}
