/** @file What the parts of one agent share. */
import type { HeaderEntry, SlabPool, ValueCodec, WireLimits } from '@backwire/wire/internal';
import type { RpcAgent } from './rpc-agent.ts';
import type { Definition } from './definitions.ts';
import type { DeviceMaps } from './device-maps.ts';
import type { Dispatcher } from '../server/dispatcher.ts';
import type { ExtensionChain } from '../extensions/chain.ts';
import type { FaultInjector } from '../client/fault-injection.ts';
import type { Observers } from './call-observers.ts';
import type { Caller } from '../client/caller.ts';
import type { Limits, Liveness, Logger } from './options.ts';
import type { Peer } from '../session/peer.ts';
import type { StallGuard } from '../server/stall-guard.ts';
import type { CallTable } from '../protocol/call-table.ts';
import type { PendingCall } from '../client/pending-call.ts';
import type { Connection } from '../transports/transport.ts';
import type { WorkerInfo } from './worker-info.ts';

/** What value extensions get: who the value is for or from, and what goes beside it. */
export interface ValueContext {
  readonly worker: WorkerInfo;
  /** Entries for the header table of the message being written. */
  header: HeaderEntry[];
  /** What has to settle before the values are used, of the message being read. */
  pending: Promise<unknown>[];
  /** What gives back the references in the message being read, should nobody ever get them. */
  readonly unclaimed: (() => void)[];
}

/** The parts of an agent, for one another. */
export interface Core {
  readonly agent: RpcAgent;
  readonly self: WorkerInfo;
  readonly incarnation: number;
  readonly group: string;
  /** Equal on workers of one machine. */
  readonly hostId: string;
  readonly limits: Readonly<Limits>;
  readonly wireLimits: WireLimits;
  readonly liveness: Readonly<Liveness>;
  readonly logger: Logger;
  readonly slabs: SlabPool;
  readonly codec: ValueCodec<ValueContext>;
  /** Writes values of extensions by what stays the same each time they are sent. */
  readonly lasting: ValueCodec<ValueContext>;
  readonly extensions: ExtensionChain;
  readonly deviceMaps: DeviceMaps;
  readonly faults: FaultInjector;
  readonly dispatcher: Dispatcher;
  /** Holds back calls that came while this worker stood still. */
  readonly stallGuard: StallGuard;
  readonly caller: Caller;
  readonly calls: CallTable<PendingCall>;
  /** Who watches calls. */
  readonly observers: Observers;
  /** The number of the view this worker knows. */
  readonly epoch: number;
  /** What refuses new incoming calls now; undefined while they are welcome. */
  readonly refusal: 'draining' | 'fenced' | undefined;
  /** Changes whenever what this agent serves does. */
  readonly servedVersion: number;
  now(): number;
  /** The definition that peers may call under `name`. @throws RpcError 'not-found', 'permission-denied'. */
  served(name: string): Definition;
  /** Connects and authenticates; the peer's claim has been checked. */
  connect(peer: Peer, signal: AbortSignal): Promise<Connection>;
  /** A pure acknowledgement is due for this peer before long. */
  ackSoon(peer: Peer): void;
  /** A timer of this peer's connector is due then. */
  wakePeer(peer: Peer): void;
  linkUp(peer: Peer, first: boolean): void;
  linkLost(peer: Peer): void;
  /** The peer cannot be reached. */
  givenUp(peer: Peer, why: 'refused' | 'unreachable'): void;
  /** The two sides cannot go on: one of them has lost what it knew of the session. */
  sessionLost(peer: Peer, why: string): void;
  /** A peer refused this worker as one that is gone: whether the group says so. */
  expelled(): Promise<boolean>;
  /** The peer takes no more calls: those that have not left for it go nowhere. */
  drains(peer: Peer): void;
  /** The peer says what it knows of the other members. */
  reported(peer: Peer, payload: Uint8Array): void;
  /** The peer said goodbye: its link will not come back. */
  saidGoodbye(peer: Peer): void;
}
