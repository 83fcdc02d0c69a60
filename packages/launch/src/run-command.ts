/** @file `backwire run`: from flags to a launch. */
import { availableParallelism, constants, tmpdir } from 'node:os';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from './errors.ts';
import type { ParsedFlags } from './flags.ts';
import { DEFAULT_SIGNALS, type LaunchOptions } from './launch.ts';
import { parseStreams } from './output-spec.ts';

const DEFAULT_MASTER_PORT = 29_500;
const DEFAULT_RENDEZVOUS_PORT = 29_400;

/**
 * What the flags ask for.
 * @throws UsageError naming the flag and its value.
 */
export function launchOptions({ values, program, args }: ParsedFlags): LaunchOptions {
  if (program === undefined) throw new UsageError('which program? usage: backwire run [flags] program.ts [args]');
  const standalone = values.get('standalone') === 'true';
  const options: LaunchOptions = {
    program,
    args,
    processes: processes(values.get('nproc-per-node') ?? '1'),
    maxRestarts: wholeFlag(values, 'max-restarts', 0),
    signals: signals(values.get('signals-to-handle')),
    native: values.get('no-node') === 'true',
    ...where(values, standalone),
    ...output(values),
  };
  const role = values.get('role');
  if (role !== undefined) options.role = role;
  const runId = values.get('rdzv-id');
  if (runId !== undefined && runId !== 'none') options.runId = fileName('rdzv-id', runId);
  const grace = values.get('stop-grace');
  if (grace !== undefined) options.stopGraceMs = seconds('stop-grace', grace) * 1000;
  const interval = values.get('monitor-interval');
  if (interval !== undefined) seconds('monitor-interval', interval);
  return options;
}

function where(values: ReadonlyMap<string, string>, standalone: boolean): Partial<LaunchOptions> {
  const nodes = nodeCount(values.get('nnodes') ?? '1');
  if (standalone) {
    if (nodes !== 1) throw new UsageError(`flag --standalone is for one host, but --nnodes is ${nodes}`);
    return { masterPort: 0 };
  }
  const backend = values.get('rdzv-backend') ?? 'static';
  if (backend !== 'static' && backend !== 'c10d') {
    throw new UsageError(`flag --rdzv-backend: '${backend}' is not supported; use static or c10d`);
  }
  const endpoint = values.get('rdzv-endpoint');
  const given = values.has('node-rank') ? wholeFlag(values, 'node-rank', 0) : undefined;
  if (given !== undefined && given >= nodes) {
    throw new UsageError(`flag --node-rank: ${given} is not below --nnodes, which is ${nodes}`);
  }
  const hosts: Partial<LaunchOptions> = { nodes, ...joinTimeout(values.get('rdzv-conf')) };
  // The static rendezvous is told who is who; the other finds out.
  const nodeRank = given ?? (backend === 'static' ? 0 : undefined);
  if (nodeRank !== undefined) hosts.nodeRank = nodeRank;
  if (endpoint !== undefined && endpoint !== '') {
    const { host, port } = parseEndpoint(endpoint, backend === 'c10d' ? DEFAULT_RENDEZVOUS_PORT : DEFAULT_MASTER_PORT);
    return { ...hosts, masterAddr: host, masterPort: port };
  }
  return {
    ...hosts,
    masterAddr: values.get('master-addr') ?? '127.0.0.1',
    masterPort: wholeFlag(values, 'master-port', DEFAULT_MASTER_PORT, 65_535),
  };
}

/** 'join_timeout=SECONDS' among the pairs of --rdzv-conf; torchrun's other keys mean nothing here. */
function joinTimeout(conf: string | undefined): Partial<LaunchOptions> {
  for (const pair of conf?.split(',') ?? []) {
    const [key, value, ...rest] = pair.split('=');
    if (value === undefined || rest.length > 0) throw new UsageError(`flag --rdzv-conf: '${pair}' is not KEY=VALUE`);
    if (key?.trim() === 'join_timeout') return { joinTimeoutMs: seconds('rdzv-conf', value) * 1000 };
  }
  return {};
}

function output(values: ReadonlyMap<string, string>): Partial<LaunchOptions> {
  const options: Partial<LaunchOptions> = {};
  const redirects = values.get('redirects');
  const tee = values.get('tee');
  if (redirects !== undefined) options.redirects = parseStreams('redirects', redirects);
  if (tee !== undefined) options.tee = parseStreams('tee', tee);
  const logDir = values.get('log-dir');
  if (logDir !== undefined) options.logDir = logDir;
  else if (redirects !== undefined || tee !== undefined) options.logDir = mkdtempSync(join(tmpdir(), 'backwire-logs-'));
  const filter = values.get('local-ranks-filter');
  if (filter !== undefined && filter !== '') {
    const ranks = new Set(filter.split(',').map((text) => wholeNumber('local-ranks-filter', text.trim())));
    options.shown = (localRank) => ranks.has(localRank);
  }
  return options;
}

function processes(text: string): number {
  if (text === 'auto' || text === 'cpu') return availableParallelism();
  if (text === 'gpu') throw new UsageError("flag --nproc-per-node: 'gpu' cannot be counted here; give a number");
  const count = wholeNumber('nproc-per-node', text);
  if (count === 0) throw new UsageError('flag --nproc-per-node has to be at least 1');
  return count;
}

function nodeCount(text: string): number {
  const match = /^(\d+)(?::(\d+))?$/.exec(text);
  if (match === null) throw new UsageError(`flag --nnodes: '${text}' is not a number`);
  const least = Number(match[1]);
  const most = Number(match[2] ?? match[1]);
  if (least !== most)
    throw new UsageError(`flag --nnodes: a group of ${least} to ${most} hosts is not supported; give one number`);
  if (least === 0) throw new UsageError('flag --nnodes has to be at least 1');
  return least;
}

function parseEndpoint(text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text);
  const port = Number(match?.[2] ?? defaultPort);
  if (match?.[1] === undefined || port > 65_535)
    throw new UsageError(`flag --rdzv-endpoint: '${text}' is not HOST[:PORT]`);
  return { host: match[1].replace(/^\[|\]$/g, ''), port };
}

function signals(text: string | undefined): readonly NodeJS.Signals[] {
  if (text === undefined) return DEFAULT_SIGNALS;
  return text.split(',').map((part) => {
    const name = part.trim();
    if (!Object.hasOwn(constants.signals, name))
      throw new UsageError(`flag --signals-to-handle: there is no signal '${name}'`);
    return name as NodeJS.Signals;
  });
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
