/** @file Looks at a whole group from outside, without becoming part of it. */
import { ASYNC_DISPOSE } from '@backwire/tensor/internal';
import { invalidArgument, RpcError } from '../base/errors.ts';
import type { Security } from '../base/options.ts';
import { ways } from '../connect/dial.ts';
import { lifeOf, type View, type ViewMember } from '../protocol/membership.ts';
import { resolveSecurity, type ResolvedSecurity } from '../security/policy.ts';
import type { Store } from '../stores/store.ts';
import { createTransports } from '../transports/select.ts';
import type { Transport } from '../transports/transport.ts';
import { ANSWER_TIMEOUT_MS } from './limits.ts';
import { readReport } from './read-report.ts';
import type { WorkerReport } from './report.ts';
import { storeSource, type ViewSource } from './view-source.ts';
import { Visit, type Reply, type VisitOptions } from './visit.ts';

export interface InspectorOptions {
  /**
   * The group's store ('tcp://host:port', 'etcd://…', 'redis://…', 'file:///…', 'host:port'), or the address on which one of its workers
   * listens ('unix:///…', 'tcp://host:port'): the others are found through it.
   */
  readonly endpoint: string | Store;
  /** @default the only group of the store; 'default' at a worker */
  readonly group?: string | undefined;
  /** As for an agent of that group. @default the secret of the environment, else that of this user on this host */
  readonly security?: Security | undefined;
  /** How long to wait for the store and for each worker, in milliseconds. @default 3000 */
  readonly timeoutMs?: number | undefined;
}

/** One worker of a group, as it is or as it was. */
export interface WorkerLook {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
  /** 'up': it answered; 'silent': it is a member and did not answer, see `error`; 'dead' and 'left': it is a member no more. */
  readonly state: 'up' | 'silent' | 'dead' | 'left';
  readonly pid?: number;
  readonly host?: string;
  readonly report?: WorkerReport;
  /** How far its time of day is ahead of this process's, at least, in milliseconds; 0 where they may agree. With a report. */
  readonly clockAheadMs?: number;
  readonly error?: string;
}

/** One look at a group. */
export interface GroupLook {
  readonly group: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly epoch: number;
  /** How many workers the group waits for; undefined for one without a fixed size. */
  readonly size?: number;
  /** Members by id, then the latest departures. */
  readonly workers: readonly WorkerLook[];
}

/** What is known of one member between looks. */
interface Place {
  visit: Visit | undefined;
  /** The number of the last finished call that was seen. */
  seen: number;
}

/**
 * Holds a connection to each worker it has looked at. Looking changes nothing: an inspector is in no view, holds no lease, counts in no
 * quorum, and no shutdown waits for it. `close` it.
 */
export class Inspector {
  readonly group: string;
  private readonly source: ViewSource;
  private readonly transports: readonly Transport[];
  private readonly security: ResolvedSecurity;
  private readonly timeoutMs: number;
  private readonly places = new Map<string, Place>();

  private constructor(source: ViewSource, security: ResolvedSecurity, timeoutMs: number) {
    this.group = source.group;
    this.source = source;
    this.security = security;
    this.timeoutMs = timeoutMs;
    this.transports = createTransports(undefined, security, source.group);
  }

  /**
   * @throws RpcError 'unavailable' or 'deadline-exceeded' when nobody answers at the endpoint, 'unauthenticated' when the secret is not
   *   the group's, 'not-found' when there is no such group, 'invalid-argument' when the store holds several.
   */
  static async open(options: InspectorOptions): Promise<Inspector> {
    const timeoutMs = options.timeoutMs ?? ANSWER_TIMEOUT_MS;
    const endpoint = typeof options.endpoint === 'string' ? addressOf(options.endpoint) : options.endpoint;
    const security = resolveSecurity(options.security, {
      bind: typeof endpoint === 'string' ? hostOf(endpoint) : undefined,
    });
    const source = await openSource(endpoint, options.group, { security, timeoutMs });
    return new Inspector(source, security, timeoutMs);
  }

  /**
   * Asks every member at once; one that does not answer is 'silent', and does not hold up the others for longer than the time limit.
   * @param options.recent also asks for the calls that ended since the last look, which agents remember from the first such question on.
   * @throws RpcError as `open`, when the members cannot be told any more either.
   */
  async look(options: { readonly recent?: boolean } = {}): Promise<GroupLook> {
    const view = await this.view();
    const recent = options.recent === true;
    const members = await Promise.all(view.members.map((member) => this.visit(member, recent)));
    this.forget(view);
    const present = new Set(view.members.map(({ name }) => name));
    const departed = view.departed
      .filter(
        ({ name }, index, all) => !present.has(name) && !all.slice(index + 1).some((later) => later.name === name),
      )
      .map(({ name, id, incarnation, how }): WorkerLook => ({ name, id, incarnation, state: how }));
    return {
      group: this.group,
      at: Date.now(),
      epoch: view.epoch,
      ...(view.size === undefined ? {} : { size: view.size }),
      workers: [...members, ...departed],
    };
  }

  async close(): Promise<void> {
    for (const { visit } of this.places.values()) visit?.close();
    this.places.clear();
    await this.source.close().catch(() => undefined);
  }

  async [ASYNC_DISPOSE](): Promise<void> {
    await this.close();
  }

  /** A store that is gone does not blind us: the workers know the view too. */
  private async view(): Promise<View> {
    try {
      return await this.source.read();
    } catch (error) {
      const view = await this.viewOfAnyone();
      if (view === undefined) throw error;
      return view;
    }
  }

  private async viewOfAnyone(): Promise<View | undefined> {
    for (const { visit } of this.places.values()) {
      if (visit === undefined || visit.closedAlready) continue;
      const reply = await visit.ask({ ask: 'view' }).catch((): Reply => ({}));
      if (reply.view !== undefined) return reply.view;
    }
    return undefined;
  }

  private async visit(member: ViewMember, recent: boolean): Promise<WorkerLook> {
    const { name, id, incarnation, pid, host } = member;
    const about = { name, id, incarnation, pid, host };
    const key = lifeOf(member);
    let place = this.places.get(key);
    if (place === undefined) this.places.set(key, (place = { visit: undefined, seen: 0 }));
    try {
      if (place.visit === undefined || place.visit.closedAlready) {
        place.visit = await this.dial(member);
        place.seen = 0;
      }
      const question = recent ? ({ ask: 'report', recent: place.seen } as const) : ({ ask: 'report' } as const);
      const asked = Date.now();
      const { report: answer } = await place.visit.ask(question);
      const report = readReport(answer, member);
      const clockAheadMs = outside(report.at, asked, Date.now());
      place.seen = report.recent?.at(-1)?.n ?? place.seen;
      return { ...about, state: 'up', report, clockAheadMs };
    } catch (error) {
      return { ...about, state: 'silent', error: error instanceof Error ? error.message : String(error) };
    }
  }

  private async dial(member: ViewMember): Promise<Visit> {
    const { group, security, timeoutMs } = this;
    let failure: unknown;
    for (const { transport, endpoint } of ways(member, this.transports)) {
      try {
        const visit = await Visit.open(transport, endpoint, { group, security, timeoutMs });
        if (visit.claim === lifeOf(member)) return visit;
        visit.close();
        failure = new RpcError('unavailable', `another worker listens at ${endpoint}`);
      } catch (error) {
        failure = error;
      }
    }
    throw failure ?? new RpcError('unavailable', `worker '${member.name}' has no address that this process can use`);
  }

  private forget(view: View): void {
    const members = new Set(view.members.map(lifeOf));
    for (const [key, { visit }] of this.places) {
      if (members.has(key)) continue;
      visit?.close();
      this.places.delete(key);
    }
  }
}

/** How far `at` is from the time between `from` and `to`. */
function outside(at: number, from: number, to: number): number {
  return at < from ? Math.min(0, at - from + CLOCK_STEP_MS) : Math.max(0, at - to - CLOCK_STEP_MS);
}

/** Whole milliseconds here, and a clock there that goes on where the day's is corrected. */
const CLOCK_STEP_MS = 5;

type How = Omit<VisitOptions, 'group'>;

async function openSource(endpoint: string | Store, group: string | undefined, how: How): Promise<ViewSource> {
  if (typeof endpoint === 'string') {
    const scheme = endpoint.slice(0, endpoint.indexOf(':'));
    if (scheme === 'unix' || scheme === 'tls') return workerSource(endpoint, group ?? 'default', how);
    if (scheme === 'tcp') {
      try {
        return await storeSource(endpoint, group, how);
      } catch (error) {
        // A worker refuses whoever wants a store; and the other way about.
        if (!(error instanceof RpcError) || !REFUSALS.has(error.code) || endpoint.includes('?')) throw error;
        return await workerSource(endpoint, group ?? 'default', how).catch((second: unknown) => {
          throw second instanceof RpcError && second.code === 'unauthenticated' ? error : second;
        });
      }
    }
  }
  return storeSource(endpoint, group, how);
}

/** What is said to a stranger. */
const REFUSALS: ReadonlySet<string> = new Set(['unauthenticated', 'unavailable', 'protocol-error']);

/** Asks the worker that listens at `endpoint`, for as long as it is there. */
async function workerSource(endpoint: string, group: string, how: How): Promise<ViewSource> {
  const { security } = how;
  const transports = createTransports(undefined, security, group);
  const scheme = endpoint.slice(0, endpoint.indexOf(':'));
  const transport = transports.find(({ name }) => name === scheme || (name === 'tls' && scheme === 'tcp'));
  if (transport === undefined)
    throw invalidArgument(`'${endpoint}' cannot be reached with security mode '${security.mode}'`);
  const address = transport.name === 'tls' ? endpoint.replace(/^tcp:/, 'tls:') : endpoint;
  const open = (): Promise<Visit> => Visit.open(transport, address, { group, ...how });
  let visit = await open();
  return {
    group,
    read: async () => {
      if (visit.closedAlready) visit = await open();
      const { view } = await visit.ask({ ask: 'view' });
      if (view === undefined) throw new RpcError('protocol-error', 'an answer without a view');
      return view;
    },
    close: async () => visit.close(),
  };
}

/** 'host:port' is a TCP address. */
function addressOf(endpoint: string): string {
  return /^[a-z]+:\/\//.test(endpoint) ? endpoint : `tcp://${endpoint}`;
}

/** The host of an address; loopback for what is on this machine. */
function hostOf(address: string): string | undefined {
  const found = /^(?:tcp|tls|etcds?|rediss?):\/\/(?:[^@/]*@)?(\[[^\]]+\]|[^:/,]+)/.exec(address)?.[1];
  return found?.replace(/^\[|\]$/g, '');
}
