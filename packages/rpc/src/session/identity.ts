/** @file What a worker says of itself when a link begins. */
import type { handshakeProto } from '@backwire/wire/internal';
import type { ExtendedEnvironment } from '../extensions/chain.ts';

/** Oldest and newest protocol this code speaks. */
export const PROTOCOL_VERSION = 1;

/** Which life of the peer is meant, by which token both sides know the session, and which dial of this side it is. */
type Meant = Pick<handshakeProto.Identity, 'peerIncarnation' | 'session' | 'dial'>;

/** The identity that HELLO and WELCOME carry. */
export function identityOf(environment: ExtendedEnvironment, meant: Meant): handshakeProto.Identity {
  return {
    ...meant,
    group: environment.group,
    name: environment.self.name,
    id: environment.self.id,
    incarnation: environment.incarnation,
    epoch: environment.epoch,
    extensions: environment.extensions.names.map((name) => ({ name, version: 1 })),
    limits: {
      maxInboundCalls: environment.limits.maxInboundCalls,
      maxInboundBytes: environment.limits.maxBufferedBytesPerPeer,
      maxFrameBytes: environment.wireLimits.maxFrameBytes,
      maxMessageBytes: environment.wireLimits.maxMessageBytes,
    },
    host: environment.hostId,
    minVersion: PROTOCOL_VERSION,
    maxVersion: PROTOCOL_VERSION,
    nonce: new Uint8Array(0),
  };
}
