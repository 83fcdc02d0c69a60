/** @file Connections in and out: the transport two members share, and the proof on both ends. */
import { RpcError } from '../base/errors.ts';
import { isLoopback } from '../base/loopback.ts';
import { parseHostPort } from '../transports/dialling.ts';
import type { Keys } from '../security/keys.ts';
import type { ViewMember } from '../protocol/membership.ts';
import { isProved } from '../security/member-proof.ts';
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
  /** Whether members show that they wrote their entries of the view. */
  readonly provesMembers: boolean;
  /** Whether bytes that go by TCP in the clear carry checksums; undefined = where they leave this host. */
  readonly checksums: boolean | undefined;
}

/** Connects to a member by the best transport both have, and proves who is who. @throws RpcError */
export async function dialMember(
  dialer: Dialer,
  member: ViewMember,
  transports: readonly Transport[],
  signal: AbortSignal,
): Promise<Connection> {
  const { keys, group } = dialer;
  if (keys !== undefined && dialer.provesMembers && !isProved(keys, group, member)) {
    throw new RpcError(
      'unauthenticated',
      `what the store says of worker '${member.name}' was not written by somebody who holds the group's secret: secret, group or security mode differ`,
    );
  }
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
    return prove(dialer, connection, { member, endpoint, signal });
  }
  throw failure ?? new RpcError('unavailable', `worker '${member.name}' has no address that this worker can use`);
}

/** What this worker says of itself while it proves itself. */
export function claimOf({ name, incarnation }: Pick<Dialer, 'name' | 'incarnation'>): Uint8Array {
  return encoder.encode(`${name}#${incarnation}`);
}

/** What a dialer says: itself, whom it means, and the address that it dialled for that. */
function dialClaim(dialer: Dialer, { name, incarnation }: ViewMember, endpoint: string): Uint8Array {
  return encoder.encode(`${dialer.name}#${dialer.incarnation} ${name}#${incarnation} ${endpoint}`);
}

/** What the other end of a connection that has proved itself claimed, 'name#incarnation'; in mode 'mtls' its certificate says so too. */
export function claimIn({ claim }: Authenticated): string {
  return decoder.decode(claim).split(' ', 1)[0] as string;
}

/**
 * Why a dialer did not mean this worker, whatever it holds: it was sent here by somebody who wrote another address into the store, and
 * listens there to what passes.
 */
export function misdirected(
  claim: Uint8Array,
  self: Pick<Dialer, 'name' | 'incarnation'>,
  endpoints: readonly string[],
): RpcError | undefined {
  const [who, whom, endpoint] = decoder.decode(claim).split(' ');
  if (whom === `${self.name}#${self.incarnation}` && endpoint !== undefined && endpoints.includes(endpoint))
    return undefined;
  const text = `'${who ?? ''}' dialled '${whom ?? 'nobody'}' at ${endpoint ?? 'no address'}, which is none of worker '${self.name}#${self.incarnation}': somebody may be between the two`;
  return new RpcError('unauthenticated', text);
}

async function prove(
  dialer: Dialer,
  connection: Connection,
  { member, endpoint, signal }: { member: ViewMember; endpoint: string; signal: AbortSignal },
): Promise<Connection> {
  const proved = await authenticate(connection, {
    role: 'dialer',
    group: dialer.group,
    keys: dialer.keys,
    claim: dialClaim(dialer, member, endpoint),
    checksums: dialer.checksums ?? leavesHost(endpoint),
    signal,
  });
  if (claimIn(proved) !== `${member.name}#${member.incarnation}`) {
    connection.destroy();
    throw new RpcError('unavailable', `another worker than '${member.name}' listens at ${connection.remote}`);
  }
  return proved.connection;
}

/** Whether an address of TCP is not this host's own alone. */
export function leavesHost(endpoint: string): boolean {
  return endpoint.startsWith('tcp://') && !isLoopback(parseHostPort(endpoint, 'tcp').host);
}

/** Only the best transport that both ends can use, so that a refusal means what it says; others only where it cannot be used at all. */
export function* ways(
  member: ViewMember,
  transports: readonly Transport[],
): Generator<{ readonly transport: Transport; readonly endpoint: string }> {
  for (const transport of transports) {
    const found = member.endpoints.find(
      (endpoint) => endpoint.transport === transport.name && endpoint.domain === transport.domain,
    );
    if (found !== undefined) yield { transport, endpoint: found.address };
  }
}
