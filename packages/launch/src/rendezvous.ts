/** @file The agreed state of a group over several launchers: who is in it, at which round, and how it ended. Pure. */
import { MAX_EVENTS, MAX_HOSTS } from './limits.ts';

/** One launcher and the workers it runs. */
export interface Host {
  /** Unique for ever. */
  readonly id: string;
  /** For people: host name and pid. */
  readonly name: string;
  /** Its number, where hosts are told theirs. */
  readonly order: number | null;
  readonly processes: number;
  /** The rank of its first worker in this round. */
  readonly firstRank: number;
  /** Its workers have finished this round. */
  readonly done: boolean;
}

/** What all launchers of a group have to agree on. */
export interface Terms {
  /** 'static': a change of the hosts starts all workers again, with new ranks. 'dynamic': workers come and go while the others run. */
  readonly membership: 'static' | 'dynamic';
  readonly least: number;
  readonly most: number;
  readonly maxRestarts: number;
}

/**
 * The value of one key of the store, changed only by compare-and-set. Phases: *gathering* → *running* → (the next round: gathering or
 * running) | *closed*.
 */
export interface Rendezvous extends Terms {
  /** Names this run among all that ever used the store. */
  readonly token: string;
  /** Counts changes. */
  readonly version: number;
  readonly phase: 'gathering' | 'running' | 'closed';
  /** Counts the times the workers were started. */
  readonly round: number;
  /** Counts those that a failure was the cause of. */
  readonly restarts: number;
  /** In the order of their ranks. */
  readonly hosts: readonly Host[];
  /** Those that came when there was no room, or while a static group was running. */
  readonly waiting: readonly Host[];
  /** Never given before (dynamic). */
  readonly nextRank: number;
  /** Why the round before ended; how the group ended, once closed. */
  readonly why: string;
  /** Closed in good order. */
  readonly ok: boolean;
  /** What happened, for people: the latest last, up to `MAX_EVENTS`; `told` counts all that ever were. */
  readonly events: readonly string[];
  readonly told: number;
}

/** Why a host cannot come in. */
export interface Refusal {
  readonly refused: string;
  /** Not for as long as the host that is in the way may be gone without anybody having noticed. */
  readonly mayPass?: true;
}

/** The first host opens the group; its terms are those of all. */
export function opened(terms: Terms, token: string): Rendezvous {
  const counts = { version: 0, round: 0, restarts: 0, nextRank: 0, told: 0 };
  return { ...terms, ...counts, token, phase: 'gathering', hosts: [], waiting: [], events: [], why: '', ok: false };
}

/** The group with one more host, or why not. Arriving twice changes nothing. */
export function arrive(state: Rendezvous, host: Omit<Host, 'firstRank' | 'done'>, terms: Terms): Rendezvous | Refusal {
  if (state.phase === 'closed')
    return { refused: state.ok ? 'the group has finished already' : `the group has ended: ${state.why}` };
  for (const term of ['membership', 'least', 'most', 'maxRestarts'] as const) {
    if (state[term] !== terms[term])
      return { refused: `the group was started with another ${NAMES[term]}: ${state[term]}, not ${terms[term]}` };
  }
  if (everybody(state).some(({ id }) => id === host.id)) return state;
  const twin = host.order === null ? undefined : state.hosts.find(({ order }) => order === host.order);
  if (twin !== undefined) return { refused: `host number ${host.order} is taken by ${twin.name}`, mayPass: true };
  const fixed = state.least === state.most;
  const full = state.hosts.filter(({ done }) => !done).length >= state.most;
  if (full && fixed && state.phase === 'running')
    return { refused: `the group has its ${state.most} hosts already`, mayPass: true };
  if (everybody(state).length >= MAX_HOSTS)
    return { refused: `the group has ${MAX_HOSTS} hosts, and there may be no more` };
  const newcomer: Host = { ...host, firstRank: state.nextRank, done: false };
  if (full || (state.membership === 'static' && state.phase === 'running'))
    return told({ ...state, waiting: [...state.waiting, newcomer] }, `host ${host.name} waits to join`);
  return told(
    { ...state, hosts: [...state.hosts, newcomer], nextRank: state.nextRank + host.processes },
    `host ${host.name} joined${ranksOf(state, newcomer)}`,
  );
}

/** Enough hosts have come: the workers start. The same state while they have not. */
export function start(state: Rendezvous): Rendezvous {
  if (state.phase !== 'gathering' || state.hosts.length < state.least) return state;
  // Ranks of a dynamic group were given on arrival.
  const running = {
    ...state,
    phase: 'running' as const,
    ...(state.membership === 'dynamic' ? {} : ranked(state.hosts)),
  };
  return told(running, `round ${state.round} starts with ${count(running)}`);
}

/** A static group begins another round with the hosts it has and those that wait. */
export function reform(state: Rendezvous, round: number, why: string): Rendezvous {
  if (state.phase !== 'running' || state.round !== round || state.membership === 'dynamic') return state;
  return nextRound(state, state.hosts, why);
}

/** A host is gone: its launcher died, lost its lease, or was told to leave. */
export function lose(state: Rendezvous, id: string, why: string): Rendezvous {
  if (state.phase === 'closed') return state;
  const host = state.hosts.find((one) => one.id === id);
  if (host === undefined) {
    const waiting = state.waiting.filter((one) => one.id !== id);
    return waiting.length === state.waiting.length ? state : told({ ...state, waiting }, why);
  }
  // What it had to do is done.
  if (host.done) return state;
  const hosts = state.hosts.filter((one) => one !== host);
  if (state.phase === 'gathering') return admitted(told({ ...state, hosts }, why));
  if (state.membership === 'dynamic') return shrunk(state, hosts, why);
  if (hosts.length + state.waiting.length >= state.least) return nextRound(state, hosts, why);
  // Too few are left; while restarts are, another host may come in its place.
  if (state.restarts >= state.maxRestarts) return closed(state, why, false);
  return nextRound({ ...state, restarts: state.restarts + 1 }, hosts, why);
}

/** Whether the group cannot go on without this host: its size is fixed, and workers of it run. */
export function needs({ phase, least, most, hosts }: Rendezvous, id: string): boolean {
  return phase === 'running' && least === most && hosts.some((host) => host.id === id && !host.done);
}

/** A worker of a host failed, and is not replaced. */
export function fail(state: Rendezvous, round: number, id: string, why: string): Rendezvous {
  if (state.phase === 'closed' || state.round !== round) return state;
  if (state.membership === 'dynamic')
    return shrunk(
      state,
      state.hosts.filter((host) => host.id !== id),
      why,
    );
  if (state.restarts >= state.maxRestarts) return closed(state, why, false);
  return nextRound({ ...state, restarts: state.restarts + 1 }, state.hosts, why);
}

/** A rank for the worker that takes a failed one's place (dynamic); undefined when no restarts are left. */
export function replace(state: Rendezvous, id: string, why: string): { state: Rendezvous; rank: number } | undefined {
  if (state.membership !== 'dynamic' || state.phase !== 'running' || state.restarts >= state.maxRestarts) return;
  if (!state.hosts.some((host) => host.id === id)) return undefined;
  const rank = state.nextRank;
  const next = { ...state, restarts: state.restarts + 1, nextRank: rank + 1 };
  return {
    state: told(next, `${why}${REPLACED} ${rank} takes its place (${next.restarts} of ${state.maxRestarts})`),
    rank,
  };
}

const REPLACED = '; rank';

/** The rank that was given in the place of the worker whose end is told by `why`; undefined where none was, lately. */
export function replacement({ events }: Rendezvous, why: string): number | undefined {
  const told = events.find((event) => event.startsWith(`${why}${REPLACED} `));
  return told === undefined ? undefined : Number.parseInt(told.slice(why.length + REPLACED.length + 1), 10);
}

/** All workers of a host have finished; when those of all hosts have, so has the group. */
export function finish(state: Rendezvous, round: number, id: string): Rendezvous {
  if (state.phase !== 'running' || state.round !== round) return state;
  const host = state.hosts.find((one) => one.id === id);
  if (host === undefined || host.done) return state;
  const hosts = state.hosts.map((one) => (one === host ? { ...one, done: true } : one));
  const next = told({ ...state, hosts }, `the workers of host ${host.name} have finished`);
  return hosts.every(({ done }) => done) ? closed(next, '', true) : admitted(next);
}

/** Ends the group for all. */
export function close(state: Rendezvous, why: string): Rendezvous {
  return state.phase === 'closed' ? state : closed(state, why, false);
}

export function isRefusal(result: Rendezvous | Refusal): result is Refusal {
  return 'refused' in result;
}

/** Whether one of the hosts is among those that `lives` knows of. */
export function isAlive(state: Rendezvous, lives: (id: string) => boolean): boolean {
  return everybody(state).some(({ id }) => lives(id));
}

/** The number of workers of a round. */
export function worldSize(state: Rendezvous): number {
  return state.hosts.reduce((sum, { processes }) => sum + processes, 0);
}

const NAMES = { membership: '--membership', least: '--nnodes', most: '--nnodes', maxRestarts: '--max-restarts' };

function everybody({ hosts, waiting }: Rendezvous): readonly Host[] {
  return [...hosts, ...waiting];
}

function closed(state: Rendezvous, why: string, ok: boolean): Rendezvous {
  return told(
    { ...state, phase: 'closed', waiting: [], why, ok },
    // All of `why` is in the report of every host.
    ok ? 'the group has finished' : `the group ends: ${why.split('\n', 1)[0]}`,
  );
}

function told(state: Rendezvous, event: string): Rendezvous {
  return { ...state, events: [...state.events, event].slice(-MAX_EVENTS), told: state.told + 1 };
}

/** The events between two states. */
export function news(before: Rendezvous | undefined, after: Rendezvous): readonly string[] {
  const known = before?.token === after.token ? before.told : 0;
  const unknown = Math.min(after.told - known, after.events.length);
  return unknown > 0 ? after.events.slice(-unknown) : [];
}

function count(state: Rendezvous): string {
  const { length } = state.hosts.filter(({ done }) => !done);
  const workers = worldSize(state);
  return `${length} ${length === 1 ? 'host' : 'hosts'}, ${workers} ${workers === 1 ? 'worker' : 'workers'}`;
}

function ranksOf(state: Rendezvous, { firstRank, processes }: Host): string {
  if (state.membership === 'static') return '';
  return processes === 1 ? ` as rank ${firstRank}` : ` as ranks ${firstRank} to ${firstRank + processes - 1}`;
}

/** A dynamic group goes on with fewer hosts, as long as there are enough; once some have finished, any number is. */
function shrunk(state: Rendezvous, hosts: readonly Host[], why: string): Rendezvous {
  const left = { ...state, hosts };
  const next = admitted(told(left, why));
  if (next.hosts.length > 0 && next.hosts.every(({ done }) => done)) return closed(next, '', true);
  const enough = next.hosts.length >= state.least;
  return enough ? next : closed(admitted(left), why, false);
}

/** Lets those in that wait, as far as there is room. */
function admitted(state: Rendezvous): Rendezvous {
  if (state.membership === 'static' && state.phase === 'running') return state;
  const hosts = [...state.hosts];
  const waiting = [...state.waiting];
  let { nextRank } = state;
  while (waiting.length > 0 && hosts.filter(({ done }) => !done).length < state.most) {
    const host = waiting.shift() as Host;
    hosts.push({ ...host, firstRank: nextRank });
    nextRank += host.processes;
  }
  const joined = hosts.slice(state.hosts.length);
  let next: Rendezvous = { ...state, hosts, waiting, nextRank };
  for (const host of joined) next = told(next, `host ${host.name} joined${ranksOf(state, host)}`);
  return next;
}

function nextRound(state: Rendezvous, survivors: readonly Host[], why: string): Rendezvous {
  const all = [...survivors, ...state.waiting];
  const hosts = all.slice(0, state.most).map((host) => ({ ...host, done: false }));
  const round = state.round + 1;
  const next = { ...state, phase: 'gathering' as const, round, hosts, waiting: all.slice(state.most), why };
  return start(told({ ...next, ...ranked(hosts) }, why));
}

/** Ranks by the numbers of the hosts, or in the order they came. */
function ranked(hosts: readonly Host[]): { hosts: Host[]; nextRank: number } {
  let nextRank = 0;
  const sorted = [...hosts].sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
  const placed = sorted.map((host) => {
    const firstRank = nextRank;
    nextRank += host.processes;
    return { ...host, firstRank };
  });
  return { hosts: placed, nextRank };
}
