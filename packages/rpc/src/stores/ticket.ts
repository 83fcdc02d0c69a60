/** @file What another thread needs to hold a lease of a store too. */
import type { Keys } from '../security/keys.ts';
import type { TlsProof } from '../transports/tls.ts';
import type { Lease, Store } from './store.ts';

/** Plain data, so that it can be posted to a thread. */
export type LeaseTicket = EmbeddedTicket | EtcdTicket | RedisTicket | FileTicket;

/** A lease of an embedded store. */
export interface EmbeddedTicket {
  readonly kind: 'embedded';
  readonly ttlMs: number;
  /** 'tcp://host:port', or 'tls://host:port' with `tls`. */
  readonly endpoint: string;
  /** undefined = the store asks for no proof of a secret. */
  readonly keys: Keys | undefined;
  /** What both sides of the connection prove; undefined = it is not encrypted. */
  readonly tls: TlsProof | undefined;
  readonly id: number;
  readonly token: Uint8Array;
  /** The key to be set under the lease. */
  readonly ageKey: string;
}

export interface EtcdTicket {
  readonly kind: 'etcd';
  readonly ttlMs: number;
  readonly endpoints: readonly string[];
  readonly id: string;
  /** In base64. */
  readonly ageKey: string;
}

export interface RedisTicket {
  readonly kind: 'redis';
  readonly ttlMs: number;
  readonly url: string;
  /** `parameters`: what comes between the script and the operation, which are the number of keys, the keys, the channel. */
  readonly script: { readonly text: string; readonly sha: string; readonly parameters: readonly string[] };
  readonly id: string;
  readonly ageKey: string;
}

export interface FileTicket {
  readonly kind: 'file';
  readonly ttlMs: number;
  /** The file whose changes show that the holder lives. Its age is not told: setting a key takes the whole store. */
  readonly path: string;
}

/** Holds a lease from its ticket alone. */
export interface LeaseHolder {
  /** Renews the lease and sets its age key; false when the lease is gone. Rejects while that is unknown: the store is out of reach. */
  hold(ageMs: number): Promise<boolean>;
  close(): void;
}

export interface HolderEvents {
  /** A connection broke and is up again: the lease wants to be held at once. */
  again(): void;
  /** The store says that the lease is gone. */
  lost(): void;
}

/** A store whose leases can be held from elsewhere. */
export interface TicketStore extends Store {
  /** undefined for a lease that is not of this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined;
}

export function canTicket(store: Store): store is TicketStore {
  return typeof (store as Partial<TicketStore>).ticket === 'function';
}
