/** @file The door of a listener: strangers prove themselves, a bounded number at a time. */
import type { RpcError } from '../base/errors.ts';
import { admitStranger } from '../transports/connection-parts.ts';
import type { Connection } from '../transports/transport.ts';
import { authenticate, type Authenticated } from './authenticate.ts';
import type { Keys } from '../security/keys.ts';

export interface AcceptorOptions {
  readonly group: string;
  readonly keys: Keys | undefined;
  /** What this side says of itself. */
  readonly claim: Uint8Array;
  /** Why what a peer claims cannot be, whatever it holds. */
  readonly mistaken?: ((claim: Uint8Array) => RpcError | undefined) | undefined;
  /** A peer that proved itself; its connection has no sink yet. */
  readonly onPeer: (peer: Authenticated) => void;
  /** A stranger that did not, after it was hung up on. */
  readonly onRefused?: ((error: RpcError, connection: Connection) => void) | undefined;
  /** Ends the handshakes that are going on. */
  readonly signal?: AbortSignal | undefined;
  /** @default 5000 */
  readonly timeoutMs?: number | undefined;
}

/**
 * What to give to `Transport.listen`. More than `MAX_HALF_OPEN` strangers at once cost the oldest its connection, so that those who
 * only wait cannot keep members out.
 */
export function createAcceptor(options: AcceptorOptions): (connection: Connection) => void {
  const { group, keys, claim, mistaken, signal, timeoutMs } = options;
  const strangers = new Set<Connection>();
  // One listener for all of them: a group that starts at once brings more than a signal takes without a warning.
  signal?.addEventListener('abort', () => strangers.forEach((connection) => connection.destroy()), { once: true });
  return (connection) => {
    if (signal?.aborted === true) {
      connection.destroy();
      return;
    }
    admitStranger(strangers, connection);
    authenticate(connection, { role: 'acceptor', group, keys, claim, mistaken, timeoutMs }).then(
      (peer) => {
        strangers.delete(connection);
        options.onPeer(peer);
      },
      (error: RpcError) => {
        strangers.delete(connection);
        options.onRefused?.(error, connection);
      },
    );
  };
}
