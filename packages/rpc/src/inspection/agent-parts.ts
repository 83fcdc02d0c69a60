/** @file The parts of one agent, for what looks at it as a whole: collectives, inspection, its end. */
import type { Caller } from '../client/caller.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { Peers } from '../membership/peers.ts';
import type { Membership } from '../protocol/membership.ts';
import type { Dispatcher } from '../server/dispatcher.ts';

export interface AgentParts extends ExtendedEnvironment {
  /** This worker's, as `self` has them. */
  readonly name: string;
  readonly id: number;
  readonly caller: Caller;
  readonly dispatcher: Dispatcher;
  readonly members: Peers;
  readonly membership: Membership;
}
