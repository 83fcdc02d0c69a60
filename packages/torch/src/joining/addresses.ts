/** @file Where members of a torch group listen, as the group's store says it. */
import { addressKey, readAddress, writeAddress } from '../group/store-text.ts';
import type { GroupStore } from './store.ts';

/** Says where a worker listens: at `address`, 'host:port'. */
export async function publishAddress(store: GroupStore, name: string, address: string): Promise<void> {
  await store.set(addressKey(name), writeAddress(address));
}

/**
 * Where a worker listens, 'host:port', once it has said so. `timeoutMs` 0 is no limit.
 * @throws RpcError 'deadline-exceeded' naming it; 'decode-error' naming it, the key and the store for what is no address.
 */
export async function awaitAddress(store: GroupStore, name: string, timeoutMs: number): Promise<string> {
  const key = addressKey(name);
  const what = `the address of worker '${name}'`;
  const text = await store.awaitText(key, timeoutMs, what);
  return store.parsed(key, what, () => readAddress(text));
}
