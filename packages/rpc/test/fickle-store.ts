/** @file A store that can be made to fall silent, or to start anew with nothing in it. */
import { randomUUID } from 'node:crypto';
import { memoryStore } from '../src/stores/memory.ts';
import type { Lease, Store, StoreEvent } from '../src/stores/store.ts';

export class FickleStore implements Store {
  /** Nothing is answered until it is false again. */
  silent = false;
  private inner: Store = memoryStore(randomUUID());
  private readonly lose = new Set<(error: Error) => void>();
  private readonly resync = new Set<() => void>();

  /** As a server that keeps nothing: leases end, watches may have missed something. */
  restart(): void {
    this.inner = memoryStore(randomUUID());
    for (const lose of this.lose) lose(new Error('the store started anew'));
    this.lose.clear();
    for (const again of this.resync) again();
  }

  async set(key: string, value: Uint8Array, options?: { lease?: Lease }): Promise<void> {
    await this.hear();
    await this.inner.set(key, value, inside(options));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    await this.hear();
    return this.inner.get(key);
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    await this.hear();
    await this.inner.wait(keys, options);
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    await this.hear();
    return this.inner.add(key, delta);
  }

  async compareAndSet(
    key: string,
    expected: Uint8Array | null,
    value: Uint8Array,
    options?: { lease?: Lease },
  ): Promise<{ ok: boolean; current: Uint8Array | undefined }> {
    await this.hear();
    return this.inner.compareAndSet(key, expected, value, inside(options));
  }

  async delete(key: string): Promise<boolean> {
    await this.hear();
    return this.inner.delete(key);
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    await this.hear();
    return this.inner.list(prefix);
  }

  async *watch(prefix: string, options?: { signal?: AbortSignal }): AsyncGenerator<StoreEvent> {
    const { signal } = options ?? {};
    while (signal?.aborted !== true) {
      const over = new AbortController();
      const stop = (): void => over.abort();
      this.resync.add(stop);
      signal?.addEventListener('abort', stop, { once: true });
      yield* this.inner.watch(prefix, { signal: over.signal });
      this.resync.delete(stop);
      if (!options?.signal?.aborted) yield { type: 'resync', key: prefix };
    }
  }

  async lease(ttlMs: number): Promise<Lease> {
    await this.hear();
    const lease = await this.inner.lease(ttlMs);
    let lose: (error: Error) => void = () => undefined;
    const lost = new Promise<Error>((resolve) => this.lose.add((lose = resolve)));
    return Object.assign(Object.create(null), {
      [INNER]: lease,
      lost,
      revoke: async () => {
        this.lose.delete(lose);
        await lease.revoke();
      },
    }) as Lease;
  }

  async close(): Promise<void> {
    await this.inner.close();
  }

  private async hear(): Promise<void> {
    while (this.silent) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const INNER = Symbol('the lease of the store inside');

function inside(options: { lease?: Lease } | undefined): { lease?: Lease } | undefined {
  const lease = (options?.lease as { [INNER]?: Lease } | undefined)?.[INNER];
  return lease === undefined ? undefined : { lease };
}
