/** @file Opens the client of an embedded store over TCP or TLS. */
import { tcpTransport } from '../transports/tcp.ts';
import { tlsProofOf } from '../transports/tls.ts';
import type { Transport } from '../transports/transport.ts';
import { connectStore, type ConnectStoreOptions, type EmbeddedStore } from './embedded-client.ts';

export { EmbeddedStore } from './embedded-client.ts';

export interface EmbeddedStoreOptions extends Omit<ConnectStoreOptions, 'transport' | 'tlsOf'> {
  /** @default TCP */
  readonly transport?: Transport | undefined;
}

/**
 * Connects to the server of an embedded store, trying again until it answers or the time is up.
 * @throws RpcError 'deadline-exceeded', 'cancelled', 'unauthenticated' (at once: the secrets will not become equal).
 */
export function embeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  return connectStore({ ...options, transport: options.transport ?? tcpTransport(), tlsOf: tlsProofOf });
}
