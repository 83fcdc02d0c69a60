/** @file Handles that were handed on to others than their owners, until those say that they have them. */
import { formatId, type Carried, type GlobalId } from '@backwire/rref/internal';
import { runAtRoot } from '@backwire/tensor/internal';

type Fork = Carried & { readonly kind: 'fork' };

interface Handed {
  readonly fork: Fork;
  /** Whom it was handed to. */
  readonly to: number;
  timer: NodeJS.Timeout | undefined;
}

/** How long a worker may take to say that it has a handle after its call has failed: it says so before it answers, over another connection. */
const DOUBT_MS = 10_000;

/**
 * torch says nothing of the handles in a message that it could not read. Of a call that failed, what is not heard of for a while is over: its
 * function never had it.
 */
export class HandedOn {
  private readonly open = new Map<string, Handed>();
  private readonly over: (fork: Fork) => void;

  /** `over` is told of handles that nobody has. */
  constructor(over: (fork: Fork) => void) {
    this.over = over;
  }

  add(fork: Fork, to: number): void {
    this.open.set(formatId(fork.fork), { fork, to, timer: undefined });
  }

  /** A worker has the handle that it was handed; or, without one, it was never sent. */
  accepted(fork: GlobalId, by?: number): void {
    const handed = this.open.get(formatId(fork));
    if (handed !== undefined && (by === undefined || handed.to === by)) this.remove(handed);
  }

  /** The call that carried it has failed. */
  doubt({ fork }: Fork): void {
    const handed = this.open.get(formatId(fork));
    if (handed === undefined || handed.timer !== undefined) return;
    handed.timer = runAtRoot(() => setTimeout(() => this.giveUp(handed), DOUBT_MS));
    handed.timer.unref();
  }

  /** Waits for none of those in doubt any longer. */
  settle(): void {
    for (const handed of [...this.open.values()]) if (handed.timer !== undefined) this.giveUp(handed);
  }

  /** A worker is gone: what it was handed it will not say that it has. */
  gone(to: number): void {
    for (const handed of [...this.open.values()]) if (handed.to === to) this.giveUp(handed);
  }

  clear(): void {
    for (const handed of [...this.open.values()]) this.remove(handed);
  }

  private giveUp(handed: Handed): void {
    this.remove(handed);
    this.over(handed.fork);
  }

  private remove({ fork, timer }: Handed): void {
    clearTimeout(timer);
    this.open.delete(formatId(fork.fork));
  }
}
