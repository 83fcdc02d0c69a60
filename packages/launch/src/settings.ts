/** @file The options of a launch, checked and filled in. */
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { findKeys, MAX_TIMER_MS, newId, newSecret, show } from '@backwire/rpc/internal';
import { LaunchError, messageOf, UsageError } from './errors.ts';
import { DEFAULT_JOIN_TIMEOUT_MS, DEFAULT_LAST_CALL_MS, DEFAULT_STOP_GRACE_MS, MAX_PROCESSES } from './limits.ts';
import type { LaunchOptions } from './options.ts';
import { consoleOf } from './output.ts';
import type { StreamsOf } from './output-spec.ts';
import { placeOf } from './rendezvous-address.ts';
import type { StartedWorker } from './worker-process.ts';

export const DEFAULT_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'];

/** Options with their defaults filled in. Times are milliseconds. */
export interface LaunchSettings {
  /** What the workers run. */
  readonly program: string;
  readonly processes: number;
  /** This launcher's part of the workers of its machine. */
  readonly local: { readonly first: number; readonly size: number };
  readonly nodes: number;
  readonly minNodes: number;
  readonly membership: 'static' | 'dynamic';
  /** This host's number, where hosts are told theirs. */
  readonly nodeRank: number | undefined;
  /** 'hosted': by the launcher that is host 0, or the first that can bind the address. */
  readonly backend: 'hosted' | 'etcd' | 'redis';
  readonly masterAddr: string;
  readonly masterPort: number;
  /** The address of that etcd or Redis, with its password, where it was given. */
  readonly rendezvousStore: string | undefined;
  /** The address of this host that the others reach. */
  readonly localAddr: string | undefined;
  readonly runId: string;
  /** How long to wait for enough hosts, */
  readonly joinTimeoutMs: number;
  /** and for more hosts once there are enough. */
  readonly lastCallMs: number;
  readonly role: string;
  readonly maxRestarts: number;
  readonly stopGraceMs: number;
  /** Undefined when the workers read it from the file that the launcher's environment names. */
  readonly secret: string | undefined;
  /** The secret was made for this group: nobody else knows it, so nobody else serves the store. */
  readonly freshSecret: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly label: (rank: number) => string;
  readonly inherit: ReadonlySet<number>;
  readonly shown: (localRank: number) => boolean;
  readonly redirects: StreamsOf | undefined;
  readonly tee: StreamsOf | undefined;
  readonly logFolder: string | undefined;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly signals: readonly NodeJS.Signals[];
  readonly signal: AbortSignal;
  /** Told where the group is. */
  readonly onGroup: ((address: string) => void) | undefined;
  readonly onStart: ((worker: StartedWorker) => void) | undefined;
  /** A line for people. */
  readonly say: (text: string) => void;
}

/** @throws UsageError naming the option; LaunchError when there is no secret that all hosts know, or a wrong one. */
export function launchSettings(options: LaunchOptions): LaunchSettings {
  const processes = whole('processes', options.processes ?? 1, 1, MAX_PROCESSES);
  const nodes = whole('nodes', options.nodes ?? 1, 1, MAX_PROCESSES);
  const nodeRank = options.nodeRank === undefined ? undefined : whole('nodeRank', options.nodeRank, 0, nodes - 1);
  const minNodes = whole('minNodes', options.minNodes ?? nodes, 1, nodes);
  const several = nodes > 1;
  const backend = options.rendezvous ?? 'hosted';
  const { rendezvousStore } = options;
  const place = rendezvousStore === undefined ? options : placeOf(backend, rendezvousStore);
  const masterPort = whole('masterPort', place.masterPort ?? 0, 0, 65_535);
  const maxRestarts = whole('maxRestarts', options.maxRestarts ?? 0, 0, Number.MAX_SAFE_INTEGER);
  // Launchers of several hosts have to agree on it without talking.
  const runId = options.runId ?? (several || backend !== 'hosted' ? 'run' : newId());
  const needsFiles = options.redirects !== undefined || options.tee !== undefined;
  if (needsFiles && options.logDir === undefined) throw new UsageError('redirects and tee need a log directory');
  if (several && masterPort === 0)
    throw new UsageError('a group over several hosts needs a master port that all of them know');
  const { stdout = process.stdout, stderr = process.stderr } = options;
  // From the first line on: what nobody reads may not end the group.
  for (const stream of [stdout, stderr]) consoleOf(stream);
  return {
    processes,
    program: options.program,
    nodes,
    minNodes,
    membership: options.membership ?? 'static',
    backend,
    rendezvousStore,
    nodeRank,
    localAddr: options.localAddr,
    local: options.local ?? { first: 0, size: processes },
    lastCallMs: duration('lastCallMs', options.lastCallMs ?? DEFAULT_LAST_CALL_MS),
    masterPort,
    maxRestarts,
    runId,
    masterAddr: bareAddress('masterAddr', place.masterAddr ?? '127.0.0.1'),
    joinTimeoutMs: duration('joinTimeoutMs', options.joinTimeoutMs ?? DEFAULT_JOIN_TIMEOUT_MS),
    role: options.role ?? 'default',
    stopGraceMs: duration('stopGraceMs', options.stopGraceMs ?? DEFAULT_STOP_GRACE_MS),
    ...groupSecret(several || backend !== 'hosted'),
    env: options.env ?? {},
    label: options.label ?? ((rank) => `rank${rank}`),
    inherit: new Set(options.inherit ?? []),
    shown: options.shown ?? (() => true),
    redirects: options.redirects,
    tee: options.tee,
    logFolder: options.logDir === undefined ? undefined : join(options.logDir, runId),
    stdout,
    stderr,
    signals: (options.signals ?? DEFAULT_SIGNALS).map((signal) => handledSignal('signals', signal)),
    signal: options.signal ?? new AbortController().signal,
    onGroup: options.onGroup,
    onStart: options.onStart,
    say: (text) => void stderr.write(`${text}\n`),
  };
}

/** The secret from the environment, else, on one host, a fresh one. Undefined = the workers read the file that is named there. */
function groupSecret(several: boolean): { secret: string | undefined; freshSecret: boolean } {
  checkSecret();
  if ((process.env['BACKWIRE_SECRET'] ?? '') !== '')
    return { secret: process.env['BACKWIRE_SECRET'], freshSecret: false };
  if ((process.env['BACKWIRE_SECRET_FILE'] ?? '') !== '') return { secret: undefined, freshSecret: false };
  if (several) {
    throw new LaunchError(
      'a group over several hosts needs one secret: set BACKWIRE_SECRET or BACKWIRE_SECRET_FILE to the same on all of them',
    );
  }
  return { secret: newSecret(), freshSecret: true };
}

/** What serves the store with a wrong one could only say that it cannot be served. */
function checkSecret(): void {
  try {
    findKeys();
  } catch (error) {
    throw new LaunchError(messageOf(error), { cause: error });
  }
}

/**
 * An address that will be shown in messages: one with a password is refused, and not repeated.
 * @throws UsageError naming the flag or option.
 */
export function bareAddress(name: string, address: string): string {
  if (address.includes('@')) throw new UsageError(`${name} takes no user and no password, but there is an @ in it`);
  return address;
}

/** @throws UsageError naming the flag or option, for a signal that does not exist or never reaches a process. */
export function handledSignal(name: string, signal: string): NodeJS.Signals {
  if (!Object.hasOwn(constants.signals, signal)) throw new UsageError(`${name}: there is no signal '${signal}'`);
  if (signal === 'SIGKILL' || signal === 'SIGSTOP') throw new UsageError(`${name}: no process can handle '${signal}'`);
  return signal as NodeJS.Signals;
}

function whole(name: string, value: number, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new UsageError(`${name} has to be a whole number from ${least} to ${most}, got ${shown(value)}`);
  }
  return value;
}

/** Longer than a timer can be set for is for ever: such a timer would end at once. */
function duration(name: string, value: number): number {
  if (typeof value !== 'number' || !(value >= 0))
    throw new UsageError(`${name} has to be a number of milliseconds from 0 to Infinity, got ${shown(value)}`);
  return Math.min(value, MAX_TIMER_MS);
}

function shown(value: unknown): string {
  return typeof value === 'string' ? `the string '${value}'` : show(value);
}
