/** @file `backwire run`: from flags to a launch. */
import { availableParallelism, tmpdir } from 'node:os';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { nearestName, withoutPassword } from '@backwire/rpc/internal';
import { LaunchError, messageOf, UsageError } from './errors.ts';
import type { ParsedFlags } from './flags.ts';
import type { LaunchOptions } from './options.ts';
import { localRank, parseStreams } from './output-spec.ts';
import type { Scheduler } from './scheduler-environment.ts';
import { bareAddress, DEFAULT_SIGNALS, handledSignal } from './settings.ts';

const DEFAULT_MASTER_PORT = 29_500;
const DEFAULT_RENDEZVOUS_PORT = 29_400;

/**
 * What the flags ask for.
 * @throws UsageError naming the flag and its value; LaunchError when logs are asked for, and there is no place for them.
 */
export function launchOptions(flags: ParsedFlags, scheduler?: Scheduler): LaunchOptions {
  const { values, program, args } = flags;
  if (program === undefined) throw new UsageError('which program? usage: backwire run [flags] program.ts [args]');
  const processes = processesOf(values);
  const options: LaunchOptions = {
    program,
    args,
    processes,
    maxRestarts: wholeFlag(values, 'max-restarts', 0),
    signals: signals(values.get('signals-to-handle')),
    native: values.get('no-node') === 'true',
    ...where(values, scheduler),
    ...output(values, processes),
  };
  const role = values.get('role');
  if (role !== undefined) options.role = role;
  const runId = values.get('rdzv-id');
  if (runId !== undefined && runId !== 'none') options.runId = fileName('rdzv-id', runId);
  const grace = values.get('stop-grace');
  if (grace !== undefined) options.stopGraceMs = seconds('stop-grace', grace) * 1000;
  const interval = values.get('monitor-interval');
  if (interval !== undefined) seconds('monitor-interval', interval);
  // Last: a mistake leaves no folder.
  const hasFiles = options.redirects !== undefined || options.tee !== undefined;
  if (hasFiles) options.logDir ??= newLogFolder();
  return options;
}

const BACKENDS = new Map<string, { rendezvous: NonNullable<LaunchOptions['rendezvous']>; port: number }>([
  ['static', { rendezvous: 'hosted', port: DEFAULT_MASTER_PORT }],
  ['c10d', { rendezvous: 'hosted', port: DEFAULT_RENDEZVOUS_PORT }],
  ['etcd', { rendezvous: 'etcd', port: 2379 }],
  ['redis', { rendezvous: 'redis', port: 6379 }],
]);

function where(values: ReadonlyMap<string, string>, scheduler: Scheduler | undefined): Partial<LaunchOptions> {
  const standalone = values.get('standalone') === 'true';
  const membership = membershipOf(values.get('membership'));
  const { least, most } = nodeCounts(values.get('nnodes') ?? String(scheduler?.nodes ?? 1));
  if (standalone) {
    if (most !== 1) throw new UsageError(`flag --standalone is for one host, but --nnodes is ${values.get('nnodes')}`);
    return { masterPort: 0, membership };
  }
  const name = values.get('rdzv-backend') ?? 'static';
  const backend = BACKENDS.get(name);
  if (backend === undefined)
    throw new UsageError(
      `flag --rdzv-backend: '${withoutPassword(name)}' is not supported; use ${[...BACKENDS.keys()].join(', ')}`,
    );
  if (least !== most && name === 'static')
    throw new UsageError(`flag --nnodes: ${least} to ${most} hosts need --rdzv-backend c10d, etcd or redis`);
  const given = values.has('node-rank') ? wholeFlag(values, 'node-rank', 0) : scheduler?.nodeRank;
  if (given !== undefined && given >= most)
    throw new UsageError(`flag --node-rank: ${given} is not below --nnodes, which is ${most}`);
  const hosts: Partial<LaunchOptions> = {
    nodes: most,
    minNodes: least,
    membership,
    rendezvous: backend.rendezvous,
    ...rendezvousConf(values.get('rdzv-conf')),
  };
  // The static rendezvous is told who is who; the others find out.
  const nodeRank = name === 'static' ? (given ?? 0) : values.has('node-rank') && least === most ? given : undefined;
  if (nodeRank !== undefined) hosts.nodeRank = nodeRank;
  const localAddr = values.get('local-addr');
  if (localAddr !== undefined && localAddr !== '') hosts.localAddr = localAddr;
  if (scheduler?.local !== undefined) hosts.local = scheduler.local;
  const endpoint = values.get('rdzv-endpoint');
  if (endpoint !== undefined && endpoint !== '') {
    const { host, port } = parseEndpoint(endpoint, backend.port);
    return { ...hosts, masterAddr: host, masterPort: port };
  }
  if (backend.rendezvous !== 'hosted') return { ...hosts, rendezvousStore: rendezvousStore(name) };
  const masterAddr = values.get('master-addr') ?? scheduler?.masterAddr;
  return {
    ...hosts,
    masterAddr: masterAddr === undefined ? '127.0.0.1' : bareAddress('flag --master-addr', masterAddr),
    masterPort: wholeFlag(values, 'master-port', DEFAULT_MASTER_PORT, 65_535),
  };
}

/** @throws LaunchError saying which flag names a folder, where the system's own takes none. */
function newLogFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), 'backwire-logs-'));
  } catch (error) {
    throw new LaunchError(
      `no folder for the logs can be made in '${tmpdir()}': ${messageOf(error)}; --log-dir names another`,
      { cause: error },
    );
  }
}

/** A password has no place among flags, which every user of a machine can read. */
function rendezvousStore(backend: string): string {
  const { BACKWIRE_RENDEZVOUS: address = '' } = process.env;
  if (address !== '') return address;
  throw new UsageError(
    `flag --rdzv-backend ${backend} needs --rdzv-endpoint, or an address such as ${backend}s://… in BACKWIRE_RENDEZVOUS`,
  );
}

function membershipOf(text: string | undefined): 'static' | 'dynamic' {
  if (text === undefined || text === 'static' || text === 'dynamic') return text ?? 'static';
  throw new UsageError(`flag --membership: '${text}' is neither static nor dynamic`);
}

/** Those that are like one of ours. */
const TORCHRUNS_KEYS: ReadonlySet<string> = new Set(['timeout', 'read_timeout', 'close_timeout']);

/** 'join_timeout' and 'last_call_timeout', in seconds, among the pairs of --rdzv-conf; torchrun's other keys mean nothing here. */
function rendezvousConf(conf: string | undefined): Partial<LaunchOptions> {
  const found: Partial<LaunchOptions> = {};
  for (const pair of conf?.split(',') ?? []) {
    const [key, value, ...rest] = pair.split('=');
    if (value === undefined || rest.length > 0) throw new UsageError(`flag --rdzv-conf: '${pair}' is not KEY=VALUE`);
    const name = key?.trim() ?? '';
    const near = TORCHRUNS_KEYS.has(name) ? undefined : nearestName(name, ['join_timeout', 'last_call_timeout']);
    if (name === 'join_timeout') found.joinTimeoutMs = seconds('rdzv-conf', value) * 1000;
    else if (name === 'last_call_timeout') found.lastCallMs = seconds('rdzv-conf', value) * 1000;
    else if (near !== undefined)
      throw new UsageError(`flag --rdzv-conf: there is no '${name}'; did you mean '${near}'?`);
  }
  return found;
}

function output(values: ReadonlyMap<string, string>, processes: number): Partial<LaunchOptions> {
  const options: Partial<LaunchOptions> = {};
  const redirects = values.get('redirects');
  const tee = values.get('tee');
  if (redirects !== undefined) options.redirects = parseStreams('redirects', redirects, processes);
  if (tee !== undefined) options.tee = parseStreams('tee', tee, processes);
  const logDir = values.get('log-dir');
  if (logDir !== undefined) options.logDir = logDir;
  const filter = values.get('local-ranks-filter');
  if (filter !== undefined && filter !== '') {
    const flag = 'local-ranks-filter';
    const ranks = new Set(filter.split(',').map((text) => localRank(flag, wholeNumber(flag, text.trim()), processes)));
    options.shown = (localRank) => ranks.has(localRank);
  }
  return options;
}

/** Workers of this launcher. */
export function processesOf(values: ReadonlyMap<string, string>): number {
  const text = values.get('nproc-per-node') ?? '1';
  if (text === 'auto' || text === 'cpu') return availableParallelism();
  if (text === 'gpu') throw new UsageError("flag --nproc-per-node: 'gpu' cannot be counted here; give a number");
  const count = wholeNumber('nproc-per-node', text);
  if (count === 0) throw new UsageError('flag --nproc-per-node has to be at least 1');
  return count;
}

function nodeCounts(text: string): { least: number; most: number } {
  const match = /^(\d+)(?::(\d+))?$/.exec(text);
  if (match === null) throw new UsageError(`flag --nnodes: '${text}' is not a number`);
  const least = Number(match[1]);
  const most = Number(match[2] ?? match[1]);
  if (least === 0) throw new UsageError('flag --nnodes has to be at least 1');
  if (most < least) throw new UsageError(`flag --nnodes: ${most} is less than ${least}`);
  return { least, most };
}

function parseEndpoint(text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(bareAddress('flag --rdzv-endpoint', text));
  const port = Number(match?.[2] ?? defaultPort);
  if (match?.[1] === undefined || port > 65_535)
    throw new UsageError(`flag --rdzv-endpoint: '${text}' is not HOST[:PORT]`);
  return { host: match[1].replace(/^\[|\]$/g, ''), port };
}

function signals(text: string | undefined): readonly NodeJS.Signals[] {
  if (text === undefined) return DEFAULT_SIGNALS;
  return text.split(',').map((part) => handledSignal('flag --signals-to-handle', part.trim()));
}

function fileName(flag: string, text: string): string {
  if (!/^[\w.-]+$/.test(text) || /^\.+$/.test(text))
    throw new UsageError(`flag --${flag}: '${text}' may have letters, digits, '.', '_' and '-' only`);
  return text;
}

function wholeFlag(
  values: ReadonlyMap<string, string>,
  flag: string,
  fallback: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const text = values.get(flag);
  if (text === undefined) return fallback;
  const value = wholeNumber(flag, text);
  if (value > most) throw new UsageError(`flag --${flag}: ${text} is above ${most}`);
  return value;
}

function wholeNumber(flag: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new UsageError(`flag --${flag}: '${text}' is not a whole number`);
  return Number(text);
}

function seconds(flag: string, text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new UsageError(`flag --${flag}: '${text}' is not a number of seconds`);
  return value;
}
