/** @file Connections in and out: the transport two members share, and the proof on both ends. */
import type { Agent } from './agent.ts';
import { RpcError } from './errors.ts';
import type { ViewMember } from './protocol/membership.ts';
import { authenticate } from './security/authenticate.ts';
import type { Connection, Transport } from './transports/transport.ts';

const encoder = new TextEncoder();

/** Connects to a member by the best transport both have, and proves who is who. @throws RpcError */
export async function dialMember(
  agent: Agent,
  member: ViewMember,
  transports: readonly Transport[],
  signal: AbortSignal,
): Promise<Connection> {
  let failure: unknown;
  for (const { transport, endpoint } of ways(member, transports)) {
    let connection: Connection;
    try {
      connection = await transport.dial(endpoint, { signal });
    } catch (error) {
      failure = error;
      if (signal.aborted) break;
      continue;
    }
    return prove(agent, connection, 'dialer', signal);
  }
  throw failure ?? new RpcError('unavailable', `worker '${member.name}' has no address that this worker can use`);
}

/** The other end of `dialMember`. */
export function admit(agent: Agent, connection: Connection): Promise<Connection> {
  return prove(agent, connection, 'acceptor');
}

async function prove(
  agent: Agent,
  connection: Connection,
  role: 'dialer' | 'acceptor',
  signal?: AbortSignal,
): Promise<Connection> {
  const claim = encoder.encode(`${agent.name}#${agent.incarnation}`);
  const { keys } = agent.settings.security;
  const proved = await authenticate(connection, { role, group: agent.group, keys, claim, signal });
  return proved.connection;
}

/** Only the best transport that both ends can use, so that a refusal means what it says; others only where it cannot be used at all. */
function* ways(
  member: ViewMember,
  transports: readonly Transport[],
): Generator<{ transport: Transport; endpoint: string }> {
  for (const transport of transports) {
    const found = member.endpoints.find(
      (endpoint) => endpoint.transport === transport.name && endpoint.domain === transport.domain,
    );
    if (found !== undefined) yield { transport, endpoint: found.address };
  }
}
