/** @file Waiting for keys in a store that cannot wait itself: look, watch until something changes, look again. */
import { RpcError } from '../base/errors.ts';
import { sleep } from '../base/within.ts';
import type { Store } from './store.ts';
import { settleWait, type WaitLimits } from './wait.ts';

/** Between two tries while the store is out of reach. */
const RETRY_MS = 200;

/**
 * Resolves once every key has been there. A store that is out of reach for a while only makes it take longer.
 * @throws RpcError as `Store.wait`.
 */
export function watchedWait(
  store: Pick<Store, 'get' | 'watch'>,
  keys: readonly string[],
  limits: WaitLimits,
): Promise<void> {
  const park = (done: (error?: RpcError) => void): (() => void) => {
    const stop = new AbortController();
    follow(store, keys, stop.signal).then(
      () => done(),
      (error: unknown) => done(RpcError.from(error)),
    );
    return () => stop.abort();
  };
  return settleWait(park, () => missing(store, keys), limits);
}

async function follow(
  store: Pick<Store, 'get' | 'watch'>,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  let left = keys;
  while (!signal.aborted) {
    try {
      left = await missing(store, left);
      const [next] = left;
      if (next === undefined) return;
      await appears(store, next, signal);
    } catch (error) {
      if (RpcError.from(error).code !== 'unavailable') throw error;
      await sleep(RETRY_MS);
    }
  }
}

async function missing(store: Pick<Store, 'get'>, keys: readonly string[]): Promise<string[]> {
  const found = await Promise.all(keys.map((key) => store.get(key)));
  return keys.filter((_, i) => found[i] === undefined);
}

/** Resolves once the key is there, or `signal` aborts. */
async function appears(store: Pick<Store, 'get' | 'watch'>, key: string, signal: AbortSignal): Promise<void> {
  const events = store.watch(key, { signal })[Symbol.asyncIterator]();
  try {
    while ((await store.get(key)) === undefined && !signal.aborted) if ((await events.next()).done === true) return;
  } finally {
    await events.return?.();
  }
}
