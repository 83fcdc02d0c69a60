/** @file What protects a connection by itself, without a handshake of this project. */

/** How far a connection can be trusted, as its transport knows it. */
export interface Protection {
  readonly encrypted: boolean;
  /** The peer proved that it holds the group's secret or a trusted certificate. */
  readonly authenticated: boolean;
  /** Whether the peer's certificate names this worker, for 'mtls'; undefined elsewhere. */
  readonly carries?: (worker: string) => boolean;
  /** Bytes that only the two ends of this connection know, for binding a proof to it. */
  readonly binding?: Uint8Array;
}

/** Both ends are this process. */
export const INSIDE: Protection = Object.freeze({ encrypted: true, authenticated: true });

export const UNPROTECTED: Protection = Object.freeze({ encrypted: false, authenticated: false });
