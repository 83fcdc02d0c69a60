/** @file What another thread needs to hold a lease of a store too. */
import type { TlsClient } from '../transports/tls.ts';
import type { Lease, Store } from './store.ts';

/** Plain data, so that it can be posted to a thread. */
export type LeaseTicket = EmbeddedTicket | EtcdTicket | RedisTicket | FileTicket;

/** A lease of an embedded store. */
interface EmbeddedTicket {
  readonly kind: 'embedded';
  readonly ttlMs: number;
  readonly host: string;
  readonly port: number;
  /** How the handshake with the store goes. */
  readonly mode: 'hmac' | 'plain';
  readonly group: string;
  /** Names the key; zeros in mode 'plain'. */
  readonly keyId: string;
  /** Derived for this purpose alone; empty in mode 'plain'. */
  readonly key: Uint8Array;
  /** How the connection is encrypted; null = it is not. */
  readonly tls: TlsClient | null;
  readonly id: number;
  readonly token: Uint8Array;
  /** The key to be set under the lease, as the store's server names it. */
  readonly ageKey: string;
}

interface EtcdTicket {
  readonly kind: 'etcd';
  readonly ttlMs: number;
  readonly endpoints: readonly string[];
  readonly id: string;
  /** In base64. */
  readonly ageKey: string;
}

interface RedisTicket {
  readonly kind: 'redis';
  readonly ttlMs: number;
  readonly url: string;
  /** What comes before the operation in an EVAL: the script, the number of keys, the keys, the channel. */
  readonly before: readonly string[];
  readonly id: string;
  readonly ageKey: string;
}

interface FileTicket {
  readonly kind: 'file';
  readonly ttlMs: number;
  /** The file whose changes show that the holder lives. Its age is not told: setting a key takes the whole store. */
  readonly path: string;
}

/** A store whose leases can be held from elsewhere. */
export interface TicketStore extends Store {
  /** undefined for a lease that is not of this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined;
}

export function canTicket(store: Store): store is TicketStore {
  return typeof (store as Partial<TicketStore>).ticket === 'function';
}
