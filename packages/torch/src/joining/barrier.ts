/** @file The end of a static group: all wait until nobody has a call open, by counting in the store. */
import { RpcError } from '@backwire/rpc';
import { shutdownKeys } from '../group/store-text.ts';
import type { History } from './history.ts';
import type { GroupStore } from './store.ts';

/** The rounds of one worker, whose numbers go on in its next life. */
export class CallBarrier {
  private readonly store: GroupStore;
  private readonly size: number;
  private readonly history: History;

  constructor(store: GroupStore, size: number, history: History) {
    this.store = store;
    this.size = size;
    this.history = history;
  }

  /** Waits for all, and gives the sum of what they gave. @throws RpcError 'deadline-exceeded' saying how many came. */
  async sum(own: number, timeoutMs: number): Promise<number> {
    const { activeCalls, processes, ready } = shutdownKeys(++this.history.rounds);
    await this.store.add(activeCalls, own);
    await this.meet(processes, ready, timeoutMs);
    return this.store.add(activeCalls, 0);
  }

  /**
   * Waits for all, for the last time. Whoever serves the store may go as soon as all have come, before this worker has heard of it.
   * @throws RpcError 'deadline-exceeded' saying how many came; 'unavailable' when the store had gone before this worker came.
   */
  async last(timeoutMs: number): Promise<void> {
    const { activeCalls, processes, ready } = shutdownKeys(++this.history.rounds);
    await this.store.add(activeCalls, 0);
    let come = false;
    try {
      await this.meet(processes, ready, timeoutMs, () => (come = true));
    } catch (error) {
      if (!come || !(error instanceof RpcError) || error.code !== 'unavailable') throw error;
    }
  }

  private async meet(processes: string, ready: string, timeoutMs: number, told?: () => void): Promise<void> {
    const come = await this.store.add(processes, 1);
    told?.();
    if (come === this.size) await this.store.set(ready, '');
    try {
      await this.store.await(ready, timeoutMs, 'the others');
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== 'deadline-exceeded') throw error;
      const there = await this.store.add(processes, 0);
      const text = `only ${there} of ${this.size} workers came to the end of their programs within ${timeoutMs} ms`;
      throw new RpcError('deadline-exceeded', text);
    }
  }
}
