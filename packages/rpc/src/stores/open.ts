/** @file Opens the store of a group by its address. */
import { RpcError } from '../errors.ts';
import { memoryStore } from './memory.ts';
import { prefixStore } from './prefix.ts';
import type { OpenStoreOptions, Store } from './store.ts';

/** A store and whether whoever opened it has to close it. */
export interface OpenedStore {
  readonly store: Store;
  /** False for a store object that was passed in. */
  readonly owned: boolean;
}

/**
 * The store that `option` names: a store object, 'memory://name', 'tcp://host:port', 'file:///directory', 'etcd://host:port',
 * 'redis://host:port', or undefined for MASTER_ADDR and MASTER_PORT. With `group`, all keys live under it.
 *
 * @throws RpcError 'invalid-argument' for an address of no known kind; 'unavailable' when the store is out of reach or its port taken;
 *   'deadline-exceeded', 'cancelled', 'unauthenticated'.
 */
export async function openStore(
  option: Store | string | undefined,
  options: OpenStoreOptions = {},
): Promise<OpenedStore> {
  const { signal, group } = options;
  if (signal?.aborted) throw new RpcError('cancelled', 'opening the store was cancelled', { cause: signal.reason });
  const owned = typeof option !== 'object';
  const store = owned ? await openAddress(option, options) : option;
  return { store: group === undefined ? store : prefixStore(store, `${group}/`, { owned }), owned };
}

async function openAddress(address: string | undefined, _options: OpenStoreOptions): Promise<Store> {
  if (address?.startsWith('memory://')) return memoryStore(address.slice('memory://'.length));
  throw new RpcError('invalid-argument', `'${address ?? ''}' names no kind of store`);
}
