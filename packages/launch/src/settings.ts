/** @file The options of a launch, checked and filled in. */
import { join } from 'node:path';
import { newId, newSecret } from '@backwire/rpc/internal';
import type { AttemptOptions } from './attempt.ts';
import { LaunchError, UsageError } from './errors.ts';
import type { HostGroupOptions } from './host-group.ts';
import { DEFAULT_JOIN_TIMEOUT_MS, DEFAULT_LAST_CALL_MS, DEFAULT_STOP_GRACE_MS, MAX_PROCESSES } from './limits.ts';
import type { LaunchOptions } from './options.ts';

export const DEFAULT_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'];

/** Options with their defaults filled in. */
export interface LaunchSettings
  extends Omit<AttemptOptions, 'command' | 'reaper' | 'round' | 'signal'>, Omit<HostGroupOptions, 'terms' | 'signal'> {
  readonly nodes: number;
  readonly minNodes: number;
  readonly membership: 'static' | 'dynamic';
  /** The secret was made for this group: nobody else knows it. */
  readonly freshSecret: boolean;
  readonly signal: AbortSignal;
}

/** @throws UsageError naming the option; LaunchError when there is no secret that all hosts know. */
export function launchSettings(options: LaunchOptions): LaunchSettings {
  const processes = whole('processes', options.processes ?? 1, 1, MAX_PROCESSES);
  const nodes = whole('nodes', options.nodes ?? 1, 1, MAX_PROCESSES);
  const nodeRank = options.nodeRank === undefined ? undefined : whole('nodeRank', options.nodeRank, 0, nodes - 1);
  const minNodes = whole('minNodes', options.minNodes ?? nodes, 1, nodes);
  const several = nodes > 1;
  const backend = options.rendezvous ?? 'hosted';
  const masterPort = whole('masterPort', options.masterPort ?? 0, 0, 65_535);
  const maxRestarts = whole('maxRestarts', options.maxRestarts ?? 0, 0, Number.MAX_SAFE_INTEGER);
  // Launchers of several hosts have to agree on it without talking.
  const runId = options.runId ?? (several || backend !== 'hosted' ? 'run' : newId());
  const needsFiles = options.redirects !== undefined || options.tee !== undefined;
  if (needsFiles && options.logDir === undefined) throw new UsageError('redirects and tee need a log directory');
  if (several && masterPort === 0)
    throw new UsageError('a group over several hosts needs a master port that all of them know');
  const stderr = options.stderr ?? process.stderr;
  return {
    processes,
    program: options.program,
    nodes,
    minNodes,
    membership: options.membership ?? 'static',
    backend,
    nodeRank,
    localAddr: options.localAddr,
    local: options.local ?? { first: 0, size: processes },
    lastCallMs: options.lastCallMs ?? DEFAULT_LAST_CALL_MS,
    masterPort,
    maxRestarts,
    runId,
    masterAddr: options.masterAddr ?? '127.0.0.1',
    joinTimeoutMs: options.joinTimeoutMs ?? DEFAULT_JOIN_TIMEOUT_MS,
    role: options.role ?? 'default',
    stopGraceMs: options.stopGraceMs ?? DEFAULT_STOP_GRACE_MS,
    ...groupSecret(several || backend !== 'hosted'),
    env: options.env ?? {},
    label: options.label ?? ((rank) => `rank${rank}`),
    inherit: new Set(options.inherit ?? []),
    shown: options.shown ?? (() => true),
    redirects: options.redirects,
    tee: options.tee,
    logFolder: options.logDir === undefined ? undefined : join(options.logDir, runId),
    stdout: options.stdout ?? process.stdout,
    stderr,
    signals: options.signals ?? DEFAULT_SIGNALS,
    signal: options.signal ?? new AbortController().signal,
    onGroup: options.onGroup,
    onStart: options.onStart,
    say: (text) => void stderr.write(`${text}\n`),
  };
}

/** The secret from the environment, else, on one host, a fresh one. Undefined = the workers read the file that is named there. */
function groupSecret(several: boolean): { secret: string | undefined; freshSecret: boolean } {
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

function whole(name: string, value: number, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new UsageError(
      `${name} has to be a whole number from ${least} to ${most}, got ${typeof value === 'number' ? value : `the ${typeof value} '${String(value)}'`}`,
    );
  }
  return value;
}
