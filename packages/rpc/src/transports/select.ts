/** @file The transports of an agent, by name, in the mode its security asks for. */
import { invalidArgument } from '../base/errors.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import { cmaTransport } from './cma.ts';
import { memoryTransport } from './memory.ts';
import { portTransport } from './port.ts';
import { isLoopback } from '../base/loopback.ts';
import { tcpTransport } from './tcp.ts';
import { tlsTransport } from './tls.ts';
import { STORE_GROUP } from '../security/handshake.ts';
import type { Transport } from './transport.ts';
import { unixTransport } from './unix.ts';
import { webSocketTransport } from './websocket.ts';

const DEFAULT_TRANSPORTS: readonly string[] = Object.freeze(['memory', 'port', 'unix', 'tcp']);

/** Ways of large bodies beside the connection itself. */
const CHANNELS: ReadonlySet<string> = new Set(['inline', 'cma']);

/**
 * The named transports that work in this process, in that order of preference. The channel 'cma' puts Unix sockets with cross-memory
 * reads before plain ones.
 * @throws RpcError 'invalid-argument' for an unknown name, or when none works here.
 */
export function createTransports(
  names: readonly string[] | undefined,
  security: ResolvedSecurity,
  group: string,
  channels: readonly string[] = ['inline'],
): Transport[] {
  const unknown = channels.find((channel) => !CHANNELS.has(channel));
  if (unknown !== undefined)
    throw invalidArgument(`no channel is named '${unknown}'; there are ${[...CHANNELS].join(', ')}`);
  const wanted = (names ?? DEFAULT_TRANSPORTS).flatMap((name) =>
    name === 'unix' && channels.includes('cma') ? ['cma', 'unix'] : [name],
  );
  const all = [...new Set(wanted)].map((name) => create(name, security, group));
  const viable = all.filter((transport) => transport.isViable());
  if (viable.length === 0)
    throw invalidArgument(
      wanted.length === 0
        ? `transports is an empty list; leave it out, or name some of ${DEFAULT_TRANSPORTS.join(', ')}`
        : `none of the transports ${wanted.join(', ')} works here; leave transports out, or name some of those that do: ${viableNames(security, group)}`,
    );
  return viable;
}

/** Those that work in this process by themselves. */
function viableNames(security: ResolvedSecurity, group: string): string {
  return DEFAULT_TRANSPORTS.filter((name) => create(name, security, group).isViable()).join(', ');
}

function create(name: string, security: ResolvedSecurity, group: string): Transport {
  switch (name) {
    case 'memory':
      return memoryTransport();
    case 'port':
      return portTransport();
    case 'unix':
      return unixTransport();
    case 'cma':
      return cmaTransport();
    case 'ws':
      return webSocketTransport({
        group,
        keys: security.keys,
        allowedOrigins: process.env['BACKWIRE_ALLOWED_ORIGINS']?.split(',').map((origin) => origin.trim()),
        insecure: security.mode === 'none' || security.mode === 'hmac',
      });
    case 'tcp':
      return tcp(security, group);
    default:
      throw invalidArgument(
        `no transport is named '${name}'; there are memory, port, unix, tcp, ws, and the channel cma`,
      );
  }
}

/** TCP as the security mode wants it: in the clear, or under TLS, whose endpoints begin with 'tls:'. */
function tcp(security: ResolvedSecurity, group: string): Transport {
  if (security.mode === 'psk' && security.keys !== undefined)
    return tlsTransport({ mode: 'psk', group, keys: security.keys });
  if (security.mode === 'mtls' && security.mtls !== undefined) {
    const { key, cert, ca } = security.mtls;
    return tlsTransport({ mode: 'mtls', key, cert, ca });
  }
  return tcpTransport();
}

/**
 * How the store of a group at `host` is reached: in the clear on loopback, where the handshake proves the secret, and under TLS from
 * other machines, whatever the agents do among themselves. 'none' is in the clear everywhere.
 */
export function storeTransport(host: string, security: ResolvedSecurity): Transport {
  if (security.mode === 'none' || isLoopback(host)) return tcpTransport();
  return tcp(security.mode === 'mtls' ? security : { ...security, mode: 'psk' }, STORE_GROUP);
}
