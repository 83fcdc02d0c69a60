/** @file The place of one value on its owner: empty until the creating call ends, then a value or an error for good. */
import { StandIn } from './stand-in.ts';

type Waiter = { readonly resolve: (value: unknown) => void; readonly reject: (error: unknown) => void };

/** Its owner's entry and the owner's own handles refer to it; the value lives as long as one of these does. */
export class OwnedValue {
  private status: 'empty' | 'value' | 'error';
  private content: unknown;
  private waiters: Waiter[] | undefined;
  /** Handles of this worker, and those that have arrived and nobody has asked for yet. */
  private holders = 0;
  private abandoned = false;

  private constructor(status: 'empty' | 'value' | 'error', content: unknown) {
    this.status = status;
    this.content = content;
  }

  static empty(): OwnedValue {
    return new OwnedValue('empty', undefined);
  }

  static of(value: unknown): OwnedValue {
    return new OwnedValue('value', value);
  }

  get settled(): boolean {
    return this.status !== 'empty';
  }

  /** The value at once; for a settled cell. @throws what creating it failed with. */
  now(): unknown {
    if (this.status === 'error') throw this.content;
    return this.content;
  }

  /** The value; rejects with what creating it failed with. Each call makes a promise of its own, so none goes unhandled unseen. */
  wait(): Promise<unknown> {
    if (this.status === 'value') return Promise.resolve(this.content);
    if (this.status === 'error') return Promise.reject(this.content);
    return new Promise((resolve, reject) => (this.waiters ??= []).push({ resolve, reject }));
  }

  /** Whether this worker itself holds it. */
  get held(): boolean {
    return this.holders > 0;
  }

  /** One more here holds it. */
  hold(): void {
    this.holders++;
  }

  /** One of them does no more. */
  drop(): void {
    this.holders--;
  }

  /** Nobody refers to it any more, here or elsewhere. A value is left to the collector; what stands for one is told, or will be. */
  abandon(): void {
    this.abandoned = true;
    if (this.status === 'value') tell(this.content);
  }

  /** Only the first outcome counts. */
  resolve(value: unknown): void {
    if (this.abandoned || this.settled) tell(value);
    if (this.settled) return;
    this.status = 'value';
    this.content = value;
    for (const waiter of this.take()) waiter.resolve(value);
  }

  reject(error: unknown): void {
    if (this.settled) return;
    this.status = 'error';
    this.content = error;
    for (const waiter of this.take()) waiter.reject(error);
  }

  private take(): Waiter[] {
    const waiters = this.waiters ?? [];
    this.waiters = undefined;
    return waiters;
  }
}

/** That it is not needed any more. */
function tell(value: unknown): void {
  if (value instanceof StandIn) value.release();
}
