/** @file A failure detector among members whose links, leases and processes do as they are told, on a time of its own. */
import { MessageType } from '@backwire/wire/internal';
import { afterEach, beforeEach, vi } from 'vitest';
import type { Environment } from '../src/base/environment.ts';
import { DEFAULT_LIVENESS } from '../src/base/options.ts';
import { FailureDetector } from '../src/membership/failure-detector.ts';
import type { LeaseState } from '../src/membership/group-store.ts';
import type { Group } from '../src/membership/group.ts';
import { Agreement } from '../src/protocol/agreement.ts';
import { EMPTY_VIEW, isRefusal, join, lifeOf } from '../src/protocol/membership.ts';
import type { Life, Membership, View, ViewMember } from '../src/protocol/membership.ts';
import type { Opinion } from '../src/protocol/opinions.ts';
import type { Peer } from '../src/session/peer.ts';
import type { Knock } from '../src/transports/knock.ts';

export const HERE = 'this host';

/** Time stands still until a test lets it pass, in every file that imports this. */
beforeEach(() => void vi.useFakeTimers());
export const cleanups: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

export const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

export function member(id: number, more: Partial<ViewMember> = {}): ViewMember {
  const endpoints = [{ transport: 'tcp', domain: 'net', address: `tcp://w${id}` }];
  return {
    name: `w${id}`,
    id,
    incarnation: 10 + id,
    endpoints,
    host: 'another',
    pid: 7,
    extensions: [],
    reports: true,
    ...more,
  };
}

function viewOf(members: readonly ViewMember[]): View {
  let view = EMPTY_VIEW;
  for (const one of members) {
    const next = join(view, one, undefined);
    if (isRefusal(next)) throw new Error(next.kind);
    view = next;
  }
  return view;
}

export class FakePeer {
  readonly member: ViewMember;
  readonly worker: { readonly name: string };
  readonly said: string[] = [];
  readonly connector = { state: 'idle' };
  notedAt = -1;
  inUse = true;
  up = true;
  state = 'here';
  link: { heardAt: number; receiving: boolean } | undefined;
  readonly sender = {
    sendAck: (): void => void this.said.push('ack'),
    sendControl: (type: MessageType): void => void this.said.push(type === MessageType.REPORT ? 'report' : '?'),
  };

  constructor(one: ViewMember) {
    this.member = one;
    this.worker = { name: one.name };
  }

  ping(): void {
    this.said.push('ping');
  }

  want(): void {
    this.said.push('dial');
  }

  reset(error: { code: string }): void {
    this.said.push(`reset ${error.code}`);
  }

  talks(receiving = false): void {
    this.link = { heardAt: performance.now(), receiving };
  }

  of(what: string): number {
    return this.said.filter((each) => each.startsWith(what)).length;
  }
}

export interface Stage {
  detector: FailureDetector;
  readonly peers: readonly FakePeer[];
  readonly told: string[];
  readonly asked: string[];
  readonly thought: [Life, Opinion][];
  /** What the store says of leases; a promise that never ends where it says nothing. */
  leases: Map<Life, LeaseState | 'nothing'>;
  /** Who has no process any more. */
  readonly ended: Set<Life>;
  knock: Knock;
  watched: Map<Life, { readonly gone: () => void; readonly signal: AbortSignal }>;
  readonly view: View;
  evict: (lives: Life[], still: (life: Life) => Promise<boolean>, how: (life: Life) => string) => Promise<void>;
  readonly unwritten: Map<Life, 'left' | 'dead'>;
  /** It is in the view no more. */
  unwatch: (life: Life) => void;
  /** All are in it again. */
  rewatch: () => void;
}

/** This worker, w0, among others. */
export function stage(...others: readonly ViewMember[]): Stage {
  const self = member(0);
  const view = viewOf([self, ...others]);
  const membership = { stored: view, view, unwritten: new Map(), fenced: false };
  const peers = others.map((one) => new FakePeer(one));
  const byLife = new Map(peers.map((peer) => [lifeOf(peer.member), peer]));
  const [told, asked, thought]: [string[], string[], [Life, Opinion][]] = [[], [], []];
  const opinion = vi.spyOn(Agreement.prototype, 'opinion');
  opinion.mockImplementation(function (this: Agreement, life, what, now) {
    thought.push([life, what]);
    real.call(this, life, what, now);
  });
  const made: Partial<Stage> = { peers, told, asked, thought, view, knock: 'silent' };
  made.leases = new Map(others.map((one) => [lifeOf(one), { state: 'alive', ageMs: 0 }]));
  made.watched = new Map();
  Object.assign(made, { ended: new Set<Life>(), unwritten: membership.unwritten });
  made.unwatch = (life) => {
    const members = view.members.filter((one) => lifeOf(one) !== life);
    membership.stored = membership.view = { ...view, epoch: view.epoch + 1, members };
    made.detector?.viewChanged();
  };
  made.rewatch = () => {
    membership.stored = membership.view = { ...view, epoch: view.epoch + 2 };
    made.detector?.viewChanged();
  };
  made.evict = async () => undefined;
  const group = {
    leaseOf: async (one: ViewMember) => {
      asked.push(`lease ${one.name}`);
      const found = made.leases?.get(lifeOf(one));
      return found === 'nothing' ? new Promise(() => undefined) : found;
    },
    watchLease: async (one: ViewMember, signal: AbortSignal, gone: () => void) =>
      void made.watched?.set(lifeOf(one), { gone, signal }),
    refresh: async () => void asked.push('refresh'),
    learn: (next: View) => void asked.push(`learn ${next.epoch}`),
    evict: (lives: Life[], still: (life: Life) => Promise<boolean>, how: (life: Life) => string) => {
      asked.push(`evict ${lives.join()} at ${Math.round(performance.now() - began)}`);
      return made.evict?.(lives, still, how);
    },
    claim: async () => [],
    claims: async () => [],
  };
  const began = performance.now();
  made.detector = new FailureDetector({
    environment: {
      liveness: DEFAULT_LIVENESS,
      hostId: HERE,
      logger: { debug: () => undefined, info: () => undefined },
      now: () => performance.now(),
    } as unknown as Environment,
    group: group as unknown as Group,
    membership: membership as unknown as Membership,
    self,
    knock: async (endpoints, timeoutMs) => {
      asked.push(`knock ${endpoints.join()} ${timeoutMs}`);
      return made.knock ?? 'silent';
    },
    isGone: (one) => made.ended?.has(lifeOf(one)) === true,
    turned: () => undefined,
    peerOf: (life) => byLife.get(life) as unknown as Peer,
    peers: () => peers as unknown as Peer[],
    onDecided: (lives) => void told.push(`decided ${lives.join()}`),
    onSuspect: ({ worker }) => void told.push(`suspect ${worker.name}`),
    onUnreachable: (_, text) => void told.push(`${text} at ${Math.round(performance.now() - began)}`),
    onFenced: (why) => void told.push(why),
  });
  cleanups.push(() => made.detector?.close());
  const here = made as Stage;
  here.detector.start();
  here.detector.viewChanged();
  for (const peer of peers) here.detector.linkUp(peer as unknown as Peer);
  return here;
}
const real = Reflect.get<Agreement, 'opinion'>(Agreement.prototype, 'opinion');

export const asPeer = (peer: FakePeer | undefined): Peer => peer as unknown as Peer;
export const last = ({ thought }: Stage, life: Life): Opinion | undefined =>
  thought.findLast(([of]) => of === life)?.[1];

export const [W1, W2] = [lifeOf(member(1)), lifeOf(member(2))];
