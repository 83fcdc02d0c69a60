/** @file The consuming end of a stream: an async generator that is a few items ahead at most. */
import { ASYNC_DISPOSE, runAtRoot } from '@backwire/tensor/internal';
import { FrameKind } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import { MAX_TIMER_MS, later } from '../base/platform.ts';
import type { OpenCalls } from './open-calls.ts';
import type { PendingCall, StreamAnswer } from './pending-call.ts';

/** A consumer that asks for no item this long while its agent shuts down has left without saying so. */
const ABANDONED_MS = 5_000;

/** Ends the streams that nobody reads: those that nobody ever has, and, after a while, those that nobody goes on with. */
export function cancelUnread(calls: OpenCalls): void {
  for (const id of calls.ids(({ mode }) => mode === 'stream')) {
    const call = calls.get(id);
    if (call === undefined || (call.answer as StreamAnswer).unreadMs() < ABANDONED_MS) continue;
    const text = 'the worker shut down while nobody read the stream';
    calls.cancel(id, (executed) => new RpcError('cancelled', text, { executed, peer: call.peer.worker }));
  }
}

interface Slot {
  readonly seq: number;
  ready: boolean;
  value: unknown;
  /** Frees what is in the item; for one that nobody gets. */
  discard?: (() => void) | undefined;
}

interface Waiter {
  resolve(result: IteratorResult<unknown, void>): void;
  reject(error: unknown): void;
}

/**
 * States: *open* (items come), then *ended*, *failed*, or *left* (the consumer has gone; what still comes is dropped).
 * What was received before a failure is delivered before it.
 */
export class StreamReader implements StreamAnswer, AsyncGenerator<unknown, void, void> {
  onComplete: (() => void) | undefined;
  private readonly calls: OpenCalls;
  private readonly highWater: number;
  private readonly idleMs: number;
  private readonly slots: Slot[] = [];
  private readonly waiters: Waiter[] = [];
  private call: PendingCall | undefined;
  private taken = 0;
  private missing = 0;
  private over = false;
  /** The consumer has gone. */
  private left = false;
  private failure: { readonly error: unknown } | undefined;
  private idle: NodeJS.Timeout | undefined;
  /** When an item was last asked for or given; undefined = never. */
  private lastRead: number | undefined;

  constructor(calls: OpenCalls, highWater: number, idleMs: number) {
    this.calls = calls;
    this.highWater = highWater;
    this.idleMs = idleMs;
  }

  /** The call that feeds it; undefined when it failed at once. */
  follow(call: PendingCall | undefined): void {
    this.call = call;
  }

  get incomplete(): boolean {
    return this.missing > 0;
  }

  unreadMs(): number {
    if (this.waiters.length > 0) return 0;
    return this.lastRead === undefined ? Infinity : this.calls.now() - this.lastRead;
  }

  // StreamAnswer

  expect(seq: number): void {
    if (this.isFull()) return;
    this.missing++;
    this.slots.push({ seq, ready: false, value: undefined });
  }

  item(value: unknown, seq: number, discard: (() => void) | undefined): void {
    const slot = this.missing > 0 ? this.slots.find((waiting) => waiting.seq === seq) : undefined;
    if (slot === undefined) {
      if (this.isFull() || this.left) {
        discard?.();
        return;
      }
      this.slots.push({ seq, ready: true, value, discard });
    } else {
      slot.ready = true;
      slot.value = value;
      slot.discard = discard;
      this.missing--;
    }
    this.deliver();
    if (this.missing > 0 || this.onComplete === undefined) return;
    const complete = this.onComplete;
    this.onComplete = undefined;
    complete();
  }

  resolve(): void {
    this.over = true;
    this.deliver();
  }

  /** Items whose storages are still on their way will not come; those before them are still the consumer's. */
  reject(error: unknown): void {
    const lost = this.slots.findIndex(({ ready }) => !ready);
    if (lost >= 0) this.forget(lost);
    this.missing = 0;
    this.onComplete = undefined;
    this.over = true;
    this.failure = { error };
    this.deliver();
  }

  // AsyncGenerator

  next(): Promise<IteratorResult<unknown, void>> {
    this.lastRead = this.calls.now();
    return new Promise((resolve, reject) => {
      this.waiters.push({ resolve, reject });
      this.deliver();
    });
  }

  async return(): Promise<IteratorResult<unknown, void>> {
    this.leave();
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<IteratorResult<unknown, void>> {
    this.leave();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [ASYNC_DISPOSE](): Promise<void> {
    this.leave();
  }

  /** A producer that sends more than it was allowed is stopped: what waits here has to stay bounded. */
  private isFull(): boolean {
    const { call } = this;
    if (this.slots.length < this.highWater) return false;
    if (call !== undefined && !this.over) {
      const text = 'the producer sent more items than it was allowed';
      this.calls.cancel(
        call.id,
        () => new RpcError('protocol-error', text, { executed: 'yes', peer: call.peer.worker }),
      );
    }
    return true;
  }

  private leave(): void {
    const { call } = this;
    this.call = undefined;
    this.left = true;
    this.forget(0);
    if (!this.over && call !== undefined) {
      this.calls.leave(
        call.id,
        (executed) => new RpcError('cancelled', 'the consumer left the stream', { executed, peer: call.peer.worker }),
      );
    }
    this.over = true;
    this.failure = undefined;
    this.deliver();
  }

  /** Nobody gets the items from there on. */
  private forget(from: number): void {
    for (const { discard } of this.slots.splice(from)) discard?.();
  }

  private deliver(): void {
    while (this.waiters.length > 0) {
      const first = this.slots[0];
      if (first?.ready === true) {
        this.slots.shift();
        this.lastRead = this.calls.now();
        (this.waiters.shift() as Waiter).resolve({ done: false, value: first.value });
        this.disarmIdle();
        this.allowMore();
      } else if (first === undefined && this.over) {
        this.finish(this.waiters.shift() as Waiter);
      } else {
        this.armIdle();
        return;
      }
    }
    this.disarmIdle();
  }

  /** A failure is told once; after it, and after the end, the generator is done. */
  private finish(waiter: Waiter): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure === undefined) waiter.resolve({ done: true, value: undefined });
    else waiter.reject(failure.error);
  }

  /** Lets the producer go on, half a window at a time. */
  private allowMore(): void {
    this.taken++;
    if (this.over || this.call === undefined || this.taken * 2 < this.highWater) return;
    this.call.peer.sender.sendId(FrameKind.CREDIT, this.call.id, this.taken);
    this.taken = 0;
  }

  private armIdle(): void {
    if (this.idleMs === 0 || this.idle !== undefined) return;
    const timer = runAtRoot(() =>
      setTimeout(
        // After a pause of this process timers come before what the sockets have: items that came in time are read first.
        () => later(() => void (this.idle === timer && this.giveUp())),
        Math.min(this.idleMs, MAX_TIMER_MS),
      ),
    );
    this.idle = timer;
  }

  private disarmIdle(): void {
    clearTimeout(this.idle);
    this.idle = undefined;
  }

  private giveUp(): void {
    const id = this.call?.id;
    if (id === undefined || this.over) return;
    const text = `no item of the stream came for ${this.idleMs} ms`;
    this.calls.cancel(
      id,
      (executed) => new RpcError('deadline-exceeded', text, { executed, peer: this.call?.peer.worker }),
    );
  }
}
