/** @file The options of one agent, checked and filled in. */
import type { Named } from '@backwire/tensor';
import type { DeviceMaps } from '../base/device-maps.ts';
import type { Limits, Liveness, Logger } from '../base/options.ts';
import type { Extension } from '../extensions/extension.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import type { ViewMember } from '../protocol/membership.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { Store } from '../stores/store.ts';
import type { Knock } from '../transports/knock.ts';

export interface Settings {
  readonly name: string;
  readonly rank: number | undefined;
  readonly size: number | undefined;
  readonly group: string;
  readonly rpcTimeoutMs: number;
  readonly initTimeoutMs: number;
  readonly limits: Readonly<Limits>;
  readonly liveness: Readonly<Liveness>;
  readonly maxConcurrentCalls: number;
  readonly extensions: readonly Extension[];
  readonly serve: readonly Named[] | undefined;
  readonly builtins: boolean;
  readonly callSites: boolean | undefined;
  readonly logger: Logger;
  readonly faults: FaultInjector;
  readonly deviceMaps: DeviceMaps;
  readonly security: ResolvedSecurity;
  readonly store: Store;
  readonly storeOwned: boolean;
  /** Knocks at endpoints; undefined where that cannot be done. */
  readonly knock: ((endpoints: readonly string[], timeoutMs: number) => Promise<Knock>) | undefined;
  /** Whether a member's process on this machine has certainly ended. */
  readonly isGone: (member: ViewMember) => boolean;
}
