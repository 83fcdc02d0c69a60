/** @file Who waits for forks: until they are confirmed or failed, and for the death of their owner. */
import type { Logger } from '@backwire/rpc';
import { observe } from '@backwire/rpc/internal';
import type { UserFork } from '../protocol/user-table.ts';

export class ForkWatchers {
  private readonly confirmations = new Map<UserFork, (() => void)[]>();
  private readonly deathListeners = new Map<UserFork, Set<() => unknown>>();
  private readonly logger: Pick<Logger, 'error'>;

  constructor(logger: Pick<Logger, 'error'>) {
    this.logger = logger;
  }

  /** Forks that somebody waits for. */
  get size(): number {
    return this.confirmations.size;
  }

  /** Resolves when the fork was confirmed, or failed, or the agent closed; never rejects. */
  whenSettled(fork: UserFork): Promise<void> {
    if (fork.settled) return Promise.resolve();
    return new Promise((resolve) => {
      const list = this.confirmations.get(fork);
      if (list === undefined) this.confirmations.set(fork, [resolve]);
      else list.push(resolve);
    });
  }

  /** Calls `listener` once when the owner has died, in a later turn when it has already. Returns a way to stop. */
  onOwnerDied(fork: UserFork, listener: () => void): () => void {
    if (fork.failure?.code === 'owner-died') {
      let wanted = true;
      queueMicrotask(() => void (wanted && this.tell(listener)));
      return () => void (wanted = false);
    }
    const listeners = this.deathListeners.get(fork) ?? new Set();
    // One entry a registration: the same function may listen twice.
    const entry = (): unknown => listener();
    this.deathListeners.set(fork, listeners.add(entry));
    return () => void listeners.delete(entry);
  }

  /** The fork was confirmed or failed. */
  settled(fork: UserFork): void {
    const waiting = this.confirmations.get(fork);
    this.confirmations.delete(fork);
    for (const resolve of waiting ?? []) resolve();
  }

  /** The fork left the table. */
  dropped(fork: UserFork): void {
    const listeners = this.deathListeners.get(fork);
    this.deathListeners.delete(fork);
    if (listeners === undefined) return;
    // The table records why right after it has dropped the fork.
    queueMicrotask(() => {
      if (fork.failure?.code === 'owner-died') for (const listener of listeners) this.tell(listener);
    });
  }

  private tell(listener: () => unknown): void {
    observe(listener, (error) => this.logger.error({ error }, 'a listener for the death of an owner failed'));
  }
}
