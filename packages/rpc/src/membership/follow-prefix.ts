/** @file The values under a prefix of a store, now and as they change, through outages of the store. */
import { RpcError } from '../base/errors.ts';
import type { Logger } from '../base/options.ts';
import { sleep } from '../base/within.ts';
import type { Store } from '../stores/store.ts';

/** Between two tries to list. */
const RETRY_MS = 200;

interface Following {
  /** Ends it. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Calls `fn` with every value under `prefix`, then with each that is set, and with all of them again when some may have been missed, until
 * `signal` aborts. Those that were listed are what the store has now; those that were told may be late.
 * @throws RpcError when the store is closed, or will not be watched.
 */
export async function followPrefix(
  store: Store,
  prefix: string,
  fn: (value: Uint8Array | undefined, isListed: boolean) => void,
  following: Following,
): Promise<void> {
  const events = store.watch(prefix, { signal: following.signal });
  await listAll(store, prefix, fn, following);
  for await (const { type, value } of events) {
    if (type === 'put') fn(value, false);
    else if (type === 'resync') await listAll(store, prefix, fn, following);
  }
}

/** Lists as often as it takes: a store that comes back may go again before it answers, and a member must not be deaf from then on. */
async function listAll(
  store: Store,
  prefix: string,
  fn: (value: Uint8Array, isListed: boolean) => void,
  { signal, logger }: Following,
): Promise<void> {
  while (!signal.aborted) {
    try {
      for (const value of (await store.list(prefix)).values()) fn(value, true);
      return;
    } catch (error) {
      if (RpcError.from(error).code !== 'unavailable') throw error;
      logger.debug({ error }, 'the store could not be listed yet');
      await sleep(RETRY_MS);
    }
  }
}
