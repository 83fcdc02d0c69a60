/** @file What can be found out about a member that does not answer, without it: of its process, its lease and its address. */
import type { Environment } from '../base/environment.ts';
import { sleepUnref } from '../base/within.ts';
import { BUSY_AGE_MS } from '../liveness/policy.ts';
import type { ViewMember } from '../protocol/membership.ts';
import type { Opinion } from '../protocol/opinions.ts';
import type { Peer } from '../session/peer.ts';
import type { Knock } from '../transports/knock.ts';
import type { LeaseState } from './group-store.ts';

export interface ExaminerOptions {
  readonly environment: Environment;
  readonly group: { leaseOf(member: ViewMember): Promise<LeaseState> };
  readonly self: ViewMember;
  /** Knocks at endpoints; undefined where that cannot be done. */
  readonly knock: ((endpoints: readonly string[], timeoutMs: number) => Promise<Knock>) | undefined;
  /** Whether a member's process on this machine has certainly ended. */
  readonly isGone: (member: ViewMember) => boolean;
}

/** How long the store is waited for when somebody is looked at, at most; an address gets twice the time. */
const PATIENCE_MS = 1_000;

/** Why somebody came into doubt. */
export type Why = 'refused' | 'unreachable' | 'silent' | 'busy';

/** What was found of one who does not answer. */
export interface Found {
  readonly lease: LeaseState | undefined;
  readonly process: 'gone' | 'there' | 'unknown';
  readonly knock: Knock | undefined;
}

export class Examiner {
  private readonly options: ExaminerOptions;
  private readonly patienceMs: number;

  constructor(options: ExaminerOptions) {
    this.options = options;
    const { deadMs, suspectMs } = options.environment.liveness;
    // All of it is known before the time of a silent peer is up.
    this.patienceMs = Math.min(PATIENCE_MS, Math.max(1, deadMs - suspectMs) / 4);
  }

  /** What its process, its lease and, where those say nothing, its address tell. */
  async find(peer: Peer, knocks: boolean): Promise<Found> {
    const process = this.processOf(peer);
    if (process === 'gone') return { process, lease: undefined, knock: undefined };
    const { group, knock } = this.options;
    const asked = group.leaseOf(peer.member).catch(() => undefined);
    const lease = await Promise.race([asked, sleepUnref(this.patienceMs).then(() => undefined)]);
    const enough = !knocks || process === 'there' || (lease !== undefined && lease.state !== 'unknown');
    if (enough || knock === undefined) return { process, lease, knock: undefined };
    return { process, lease, knock: await knock(this.addressesOf(peer.member), 2 * this.patienceMs) };
  }

  /** What its host says of its process; one that stands still is there. */
  processOf({ member }: Peer): Found['process'] {
    if (member.host !== this.options.environment.hostId || member.pid === 0) return 'unknown';
    return this.options.isGone(member) ? 'gone' : 'there';
  }

  /** Where this worker could reach a member. */
  private addressesOf(member: ViewMember): string[] {
    const own = this.options.self.endpoints;
    return member.endpoints
      .filter(({ transport, domain }) => own.some((each) => each.transport === transport && each.domain === domain))
      .map(({ address }) => address);
  }
}

/** What is to be thought of one whose link cannot be made or says nothing. */
export function opinionOf({ process, lease, knock }: Found, why: Why): Opinion {
  if (process === 'gone' || lease?.state === 'gone') return 'gone';
  const there = process === 'there' || knock === 'there';
  // Its address is gone, and it is not: it can still reach the others.
  if (why === 'refused' && process === 'there') return 'unsure';
  if (why === 'busy') return 'doubted';
  if (lease?.state === 'alive' && process !== 'there') return lease.ageMs >= BUSY_AGE_MS ? 'stuck' : 'doubted';
  if (there) return 'stuck';
  return knock === 'refused' ? 'refused' : 'doubted';
}
