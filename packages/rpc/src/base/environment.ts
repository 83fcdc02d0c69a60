/** @file What every part of an agent may know of it: who it is, what bounds it, how it writes values. */
import type { HeaderEntry, SlabPool, ValueCodec, WireLimits } from '@backwire/wire/internal';
import type { Observers } from './call-observers.ts';
import type { Definition } from './definitions.ts';
import type { DeviceMaps } from './device-maps.ts';
import type { Limits, Liveness, Logger } from './options.ts';
import type { RpcAgent } from './rpc-agent.ts';
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

export interface Environment {
  /** As programs hold it. */
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
  readonly deviceMaps: DeviceMaps;
  /** Who watches calls. */
  readonly observers: Observers;
  /** The number of the view this worker knows. */
  readonly epoch: number;
  /** What refuses new incoming calls now; undefined while they are welcome. */
  readonly refusal: 'draining' | 'fenced' | undefined;
  /** Why it is 'fenced', once it is. */
  readonly whyFenced: string;
  /** Changes whenever what this agent serves does. */
  readonly servedVersion: number;
  /** The definition that peers may call under `name`. @throws RpcError 'not-found', 'permission-denied'. */
  served(name: string): Definition;
  /** Looks at what a builtin is to make before it is made. @throws RpcError 'resource-exhausted' */
  checkResult(definition: Definition, args: readonly unknown[]): void;
  /** A monotonic time in milliseconds. */
  now(): number;
}
