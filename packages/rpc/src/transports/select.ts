/** @file The transports of an agent, by name, in the mode its security asks for. */
import { RpcError } from '../errors.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import { memoryTransport } from './memory.ts';
import { tcpTransport } from './tcp.ts';
import type { Transport } from './transport.ts';
import { unixTransport } from './unix.ts';

export const DEFAULT_TRANSPORTS: readonly string[] = Object.freeze(['memory', 'unix', 'tcp']);

/**
 * The named transports that work in this process, in that order of preference.
 * @throws RpcError 'invalid-argument' for an unknown name, or when none works here.
 */
export function createTransports(
  names: readonly string[] | undefined,
  security: ResolvedSecurity,
  group: string,
): Transport[] {
  const all = (names ?? DEFAULT_TRANSPORTS).map((name) => create(name, security, group));
  const viable = all.filter((transport) => transport.isViable());
  if (viable.length === 0)
    throw new RpcError('invalid-argument', `none of the transports ${(names ?? []).join(', ')} works here`);
  return viable;
}

function create(name: string, _security: ResolvedSecurity, _group: string): Transport {
  switch (name) {
    case 'memory':
      return memoryTransport();
    case 'unix':
      return unixTransport();
    case 'tcp':
      return tcpTransport();
    default:
      throw new RpcError('invalid-argument', `no transport is named '${name}'`);
  }
}
