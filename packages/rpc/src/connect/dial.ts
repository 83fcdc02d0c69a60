/** @file Connections in and out: the transport two members share, and the proof on both ends. */
import { RpcError } from '../base/errors.ts';
import type { Keys } from '../security/keys.ts';
import type { ViewMember } from '../protocol/membership.ts';
import { authenticate, type Authenticated } from './authenticate.ts';
import type { Connection, Transport } from '../transports/transport.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Who dials, and what it proves that with. */
export interface Dialer {
  readonly group: string;
  readonly name: string;
  readonly incarnation: number;
  readonly keys: Keys | undefined;
}

/** Connects to a member by the best transport both have, and proves who is who. @throws RpcError */
export async function dialMember(
  dialer: Dialer,
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
    return prove(dialer, connection, member, signal);
  }
  throw failure ?? new RpcError('unavailable', `worker '${member.name}' has no address that this worker can use`);
}

/** What this worker says of itself while it proves itself. */
export function claimOf({ name, incarnation }: Pick<Dialer, 'name' | 'incarnation'>): Uint8Array {
  return encoder.encode(`${name}#${incarnation}`);
}

/** What the other end of a connection that has proved itself claimed, 'name#incarnation'; in mode 'mtls' its certificate says so too. */
export function claimIn({ claim }: Authenticated): string {
  return decoder.decode(claim);
}

async function prove(
  dialer: Dialer,
  connection: Connection,
  member: ViewMember,
  signal: AbortSignal,
): Promise<Connection> {
  const proved = await authenticate(connection, {
    role: 'dialer',
    group: dialer.group,
    keys: dialer.keys,
    claim: claimOf(dialer),
    signal,
  });
  if (claimIn(proved) !== `${member.name}#${member.incarnation}`) {
    connection.destroy();
    throw new RpcError('unavailable', `another worker than '${member.name}' listens at ${connection.remote}`);
  }
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
