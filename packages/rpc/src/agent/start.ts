/** @file Starts agents: options checked, store opened, doors opened, group joined. What differs between Node and browsers is passed in. */
import { Agent } from './agent.ts';
import type { RpcAgent, ShutdownOptions } from '../base/rpc-agent.ts';
import { agentOf } from './current-agent.ts';
import { DeviceMaps } from '../base/device-maps.ts';
import { invalidArgument } from '../base/errors.ts';
import { Group, type GroupOptions } from '../membership/group.ts';
import { joinedText, sizeText } from '../membership/join-errors.ts';
import type { View } from '../protocol/membership.ts';
import { FaultInjector } from '../session/fault-injection.ts';
import { watchSilence } from '../server/silence.ts';
import { withoutPassword } from '../stores/address.ts';
import { isProved, proveMember } from '../security/member-proof.ts';
import { enteredInTime, letGo } from './join-limit.ts';
import type { Settings } from './settings.ts';
import {
  requireMethods,
  checkOptions,
  checkTimeoutMs,
  DEFAULT_CONCURRENT_CALLS,
  DEFAULT_INIT_TIMEOUT_MS,
  DEFAULT_LIMITS,
  DEFAULT_LIVENESS,
  DEFAULT_RPC_TIMEOUT_MS,
  fillNumbers,
  show,
  type Logger,
} from '../base/options.ts';
import { runAtRoot } from '@backwire/tensor/internal';
import type { KeepAlive } from '../liveness/keep-alive.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import { bare } from '../base/shown.ts';
import type { Security } from '../base/options.ts';
import { checkAdvertised, checkRpcOptions, type RpcOptions } from './rpc-options.ts';
import { givenStore } from '../stores/given-store.ts';
import { prefixStore } from '../stores/prefix.ts';
import type { Lease, OpenStoreOptions, Store } from '../stores/store.ts';
import type { Knock } from '../transports/knock.ts';
import type { Connection, Listener, Transport } from '../transports/transport.ts';
import { plainJson } from '../base/plain-text.ts';
import { checkWorkerId, checkWorkerName } from '../base/worker-info.ts';

/** What the platform has to offer. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Equal on workers of one machine. */
  host(): string;
  /** @throws RpcError as `RpcOptions.security` says. */
  security(given: Security | undefined, bind: string | undefined): ResolvedSecurity;
  /** @throws RpcError 'invalid-argument' for names that mean nothing here. */
  transports(options: RpcOptions, security: ResolvedSecurity, group: string): readonly Transport[];
  store(
    given: Store | string | undefined,
    options: OpenStoreOptions & { readonly security: ResolvedSecurity },
  ): Promise<{ readonly store: Store; readonly owned: boolean }>;
  keepAlive(store: Store, lease: Lease, options: { readonly ageKey: string }): KeepAlive;
  /** Finds out whether anybody is behind an address; undefined where that cannot be done. */
  readonly knock: ((endpoints: readonly string[], timeoutMs: number) => Promise<Knock>) | undefined;
  /** Whether a process of this machine has certainly ended. */
  isProcessGone(pid: number): boolean;
}

/** A program without types gets told what is missing, not which property of undefined could not be read. */
export function checkGiven(options: unknown, what: string): void {
  if (options === undefined) throw new TypeError(`${what} needs options: at least { name: 'worker0' }`);
  checkOptions(options, what);
  checkRpcOptions(options as RpcOptions, what);
}

/** The agent that free functions use here. @throws RpcError 'failed-precondition' when there is none. */
export function currentAgent(): RpcAgent {
  return agentOf();
}

/**
 * Shuts the current agent down.
 * @param options `graceful`, `timeoutMs`, `onLeak`
 * @throws RpcError as `RpcAgent.shutdown`.
 */
export async function shutdown(options?: ShutdownOptions): Promise<void> {
  const agent = agentOf();
  await agent.shutdown(options);
}

/** Starts an agent. Resolves when the group is complete and every member can be called. */
export async function start(given: RpcOptions, around: Surroundings): Promise<Agent> {
  return runAtRoot(async () => {
    const options = withEnvironment(given, around.env);
    const initTimeoutMs = checkTimeoutMs(options.initTimeoutMs ?? DEFAULT_INIT_TIMEOUT_MS, 'initTimeoutMs');
    const deadline = initTimeoutMs === 0 ? Infinity : performance.now() + initTimeoutMs;
    const settings = await settle(options, initTimeoutMs, around);
    const doors = new Doors();
    let group: Group | undefined;
    let hush = (): void => undefined;
    try {
      const transports = around.transports(options, settings.security, settings.group);
      await doors.open(transports, options);
      return await enteredInTime(
        enter(settings, transports, doors, deadline, around, (made, stop) => {
          group = made;
          hush = stop;
        }),
        deadline,
        () => lateText(settings, whereText(options.store, around.env)),
        (late) => late.shutdown({ graceful: false }),
      );
    } catch (error) {
      hush();
      await doors.close();
      await letGo(group, settings.storeOwned ? settings.store : undefined);
      throw error;
    }
  });
}

const CALL_SITES: ReadonlyMap<string, boolean> = new Map([
  ['0', false],
  ['1', true],
]);

/** What the launcher says about the place of this host, below the program's own options. */
function withEnvironment(options: RpcOptions, env: Surroundings['env']): RpcOptions {
  const said = (name: string): string | undefined => (env[name] === '' ? undefined : env[name]);
  const bind = options.bind ?? said('BACKWIRE_BIND');
  const advertise = options.advertise ?? said('BACKWIRE_ADVERTISE');
  // Not what stands in for null, which would be told to peers.
  checkAdvertised(options.advertise);
  checkAdvertised(advertise);
  const membership = options.membership ?? (said('BACKWIRE_MEMBERSHIP') as RpcOptions['membership']);
  return {
    ...options,
    ...(bind === undefined ? {} : { bind }),
    ...(advertise === undefined ? {} : { advertise }),
    // A program that says how large its group is has a static one.
    ...(membership === undefined || options.worldSize !== undefined ? {} : { membership }),
  };
}

async function enter(
  settings: Settings,
  transports: readonly Transport[],
  doors: Doors,
  deadline: number,
  around: Surroundings,
  made: (group: Group, stop: () => void) => void,
): Promise<Agent> {
  const later: { agent?: Agent } = {};
  let seen: View | undefined;
  const group = new Group({
    store: prefixStore(settings.store, `backwire/${settings.group}/`, { owned: false }),
    root: settings.store,
    leaseMs: settings.liveness.leaseMs,
    busyDeadMs: settings.liveness.busyDeadMs,
    isGone: settings.isGone,
    onStore: (state) => later.agent?.storeIs(state),
    logger: settings.logger,
    keepAlive: (store, lease, options) => around.keepAlive(store, lease, options),
    now: () => performance.now(),
    onView: (view) => {
      if (later.agent === undefined) seen = view;
      else later.agent.members.update(view);
    },
    onLeaseLost: (error) => later.agent?.leaseLost(error),
    prove: proverOf(settings),
    isProved: checkerOf(settings),
  });
  const stop = watchSilence(settings.logger, (seconds) => joiningText(settings, group, seen, seconds));
  made(group, stop);
  const { member, view } = await group
    .join(
      {
        name: settings.name,
        id: settings.rank,
        size: settings.size,
        endpoints: doors.endpoints,
        host: around.host(),
        extensions: settings.extensions.map(({ name }) => name),
        deviceMaps: settings.deviceMaps.given,
      },
      deadline,
    )
    .finally(stop);
  if (settings.size !== undefined)
    settings.deviceMaps.check(member.name, new Set(view.members.map(({ name }) => name)));
  const agent = new Agent(settings, member, group, transports, doors.listeners);
  later.agent = agent;
  agent.begin(view);
  doors.handTo(agent.acceptor());
  // What was told while there was no agent yet.
  if (seen !== undefined) agent.members.update(seen);
  if (settings.size === undefined) await agent.members.greet();
  return agent;
}

/** What a worker waits for that wants to join. */
function joiningText(
  { name, size }: Settings,
  { trouble, inTheWay }: Group,
  view: View | undefined,
  seconds: number,
): string {
  const began = `worker '${name}' has waited ${seconds} s to join its group`;
  if (trouble !== undefined) return `${began}: ${trouble}`;
  if (inTheWay !== undefined) {
    const other = `worker '${inTheWay.name}' with id ${inTheWay.id}, process ${inTheWay.pid} on ${inTheWay.host}`;
    return `${began}: ${other}, is still in it: a former life, which goes when its lease ends, or another worker, which needs another name`;
  }
  return view === undefined || size === undefined
    ? `${began}: the store does not answer`
    : `${began}: ${joinedText(view, size)}; ${sizeText(size)}`;
}

/** Why joining is ended although nobody can say who is missing. */
function lateText({ name, initTimeoutMs }: Settings, where: string): string {
  return `worker '${name}' has not joined its group in ${initTimeoutMs} ms: the store${where} does not answer, or too late; see to that, or give another`;
}

/** Shows that this worker wrote its entry of the view. Certificates show it without: whoever answers has to have that of the name. */
function proverOf({ security: { keys, mode }, group }: Settings): GroupOptions['prove'] {
  return keys === undefined || mode === 'mtls' ? undefined : (member) => proveMember(keys, group, member);
}

/** Whether an entry was written by one who holds the group's secret, where that can be shown. */
function checkerOf({ security: { keys, mode }, group }: Settings): GroupOptions['isProved'] {
  return (member) => keys === undefined || mode === 'mtls' || isProved(keys, group, member);
}

/** The listeners, and the connections that came before there was anybody to take them. */
class Doors {
  readonly listeners: Listener[] = [];
  readonly endpoints: { transport: string; domain: string; address: string }[] = [];
  private early: Connection[] | undefined = [];
  private take: ((connection: Connection) => void) | undefined;

  async open(transports: readonly Transport[], options: RpcOptions): Promise<void> {
    for (const transport of transports) {
      if (transport.dialsOnly === true) continue;
      const listener = await transport.listen({ host: options.bind, advertise: options.advertise }, (connection) => {
        if (this.take !== undefined) this.take(connection);
        else if (this.early !== undefined && this.early.length < MAX_EARLY) this.early.push(connection);
        else connection.destroy();
      });
      this.listeners.push(listener);
      this.endpoints.push({ transport: transport.name, domain: transport.domain, address: listener.endpoint });
    }
  }

  handTo(take: (connection: Connection) => void): void {
    this.take = take;
    for (const connection of this.early?.splice(0) ?? []) take(connection);
    this.early = undefined;
  }

  async close(): Promise<void> {
    for (const connection of this.early?.splice(0) ?? []) connection.destroy();
    this.early = undefined;
    await Promise.all(this.listeners.map((listener) => listener.close()));
  }
}

/** Where the store is that a worker waits for, as far as it was told. */
function whereText(given: RpcOptions['store'], env: Surroundings['env']): string {
  const { BACKWIRE_STORE: store, MASTER_ADDR: host, MASTER_PORT: port } = env;
  if (typeof given === 'string') return ` at ${withoutPassword(given)}`;
  if (store !== undefined && store !== '') return ` at ${withoutPassword(store)}`;
  return host === undefined ? '' : ` at ${host}:${port ?? ''}`;
}

/** Why a store may keep a worker waiting: not all are served by one. */
function unansweredText(where: string): string {
  if (where.startsWith(' at file:')) return 'its file system does not answer';
  const isService = /^ at (?:etcd|redis)s?:/.test(where);
  return `nobody answers there yet${isService ? '' : '; unless a launcher or a service does, rank 0 serves it'}`;
}

/** Connections that may wait until this worker has joined. */
const MAX_EARLY = 1_024;

async function settle(options: RpcOptions, initTimeoutMs: number, around: Surroundings): Promise<Settings> {
  const { env } = around;
  const name = checkWorkerName(options.name);
  const rank = options.rank ?? numberOf(env['RANK'], 'RANK');
  const worldSize = options.worldSize ?? numberOf(env['WORLD_SIZE'], 'WORLD_SIZE');
  const membership = options.membership ?? (worldSize === undefined ? 'dynamic' : 'static');
  if (rank !== undefined) checkWorkerId(rank);
  if (worldSize !== undefined && typeof worldSize !== 'number') {
    throw new TypeError(`worldSize is a whole number, got ${typeof worldSize} ${show(worldSize)}`);
  }
  if (worldSize !== undefined && (!Number.isInteger(worldSize) || worldSize < 1 || worldSize > 32_768)) {
    // What Number() makes of a variable that such a group does not have.
    const none = worldSize === 0 || Number.isNaN(worldSize);
    const why =
      none && env['BACKWIRE_MEMBERSHIP'] === 'dynamic'
        ? ': this run has --membership dynamic, so there is no WORLD_SIZE; leave worldSize out'
        : Number.isNaN(worldSize) && env['WORLD_SIZE'] === undefined
          ? ": WORLD_SIZE is missing; 'backwire run' sets it: npx backwire run --nproc-per-node 2 program.ts"
          : '';
    throw invalidArgument(`worldSize must be a positive whole number, got ${worldSize}${why}`);
  }
  if (membership === 'static' && worldSize === undefined)
    throw invalidArgument("membership 'static' needs a worldSize");
  if (membership === 'static' && rank !== undefined && worldSize !== undefined && rank >= worldSize) {
    throw invalidArgument(`rank ${rank} is not below worldSize ${worldSize}`);
  }
  if (membership !== 'static' && membership !== 'dynamic') {
    throw invalidArgument(`membership is 'static' or 'dynamic', got ${bare(membership)}`);
  }
  checkLists(options);
  for (const name of ['builtins', 'callSites'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'boolean')
      throw new TypeError(`${name} is true or false, got ${typeof options[name]}`);
  const serve = options.serve === 'all-defined' ? undefined : options.serve;
  const group = options.group ?? 'default';
  checkWorkerName(group, 'Group name');
  const maxConcurrentCalls = options.maxConcurrentCalls ?? DEFAULT_CONCURRENT_CALLS;
  if (!Number.isInteger(maxConcurrentCalls) || maxConcurrentCalls < 1) {
    throw invalidArgument(`maxConcurrentCalls must be positive, got ${show(maxConcurrentCalls)}`);
  }
  const logger = options.logger ?? consoleLogger(name);
  const limits = fillNumbers(DEFAULT_LIMITS, options.limits, 'limits');
  const liveness = fillNumbers(DEFAULT_LIVENESS, options.liveness, 'liveness');
  const rpcTimeoutMs = checkTimeoutMs(options.rpcTimeoutMs ?? DEFAULT_RPC_TIMEOUT_MS, 'rpcTimeoutMs');
  const faults = new FaultInjector(options.faults, logger);
  const deviceMaps = new DeviceMaps(options.deviceMaps);
  const host = around.host();
  const security = around.security(options.security, options.bind);
  const where = whereText(options.store, env);
  const stop = watchSilence(
    logger,
    (seconds) => `worker '${name}' has waited ${seconds} s for the store${where}: ${unansweredText(where)}`,
  );
  const opened = await around
    .store(options.store ?? (worldSize === 1 && env['MASTER_ADDR'] === undefined ? 'memory://alone' : undefined), {
      security,
      rank,
      timeoutMs: initTimeoutMs,
    })
    .finally(stop);
  return {
    name,
    rank,
    size: membership === 'static' ? worldSize : undefined,
    group,
    rpcTimeoutMs,
    initTimeoutMs,
    limits,
    liveness,
    maxConcurrentCalls,
    extensions: options.extensions ?? [],
    serve,
    builtins: options.builtins ?? serve === undefined,
    callSites: options.callSites ?? CALL_SITES.get(env['BACKWIRE_CALL_SITES'] ?? ''),
    logger,
    faults,
    deviceMaps,
    security,
    store: opened.owned ? opened.store : givenStore(opened.store, logger),
    storeOwned: opened.owned,
    knock: around.knock,
    isGone: (member) => member.host === host && around.isProcessGone(member.pid),
  };
}

/** Options that are lists, or one word in place of one. */
function checkLists(options: RpcOptions): void {
  for (const name of ['transports', 'channels', 'extensions', 'serve'] as const) {
    const given: unknown = options[name];
    if (given === undefined || Array.isArray(given) || (name === 'serve' && given === 'all-defined')) continue;
    throw new TypeError(`${name} is a list, got ${typeof given}${typeof given === 'string' ? ` '${given}'` : ''}`);
  }
  const extensions = new Set<string>();
  for (const each of options.extensions ?? []) {
    requireMethods(each, ['attach'], 'an element of extensions', 'what rrefs() and the like return');
    if (extensions.has(each.name)) throw invalidArgument(`two extensions are named '${each.name}'`);
    extensions.add(each.name);
  }
  if (Array.isArray(options.serve)) for (const each of options.serve as readonly unknown[]) checkServed(each);
}

function checkServed(given: unknown): void {
  if (typeof given === 'function') return;
  throw new TypeError(`serve lists functions and classes, not their names; got ${show(given)}`);
}

function numberOf(text: string | undefined, name: string): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw invalidArgument(`${name} is not a number: '${text}'`);
  return Number(text);
}

/** Warnings and errors go to the console, the rest nowhere. */
function consoleLogger(name: string): Logger {
  const silent = (): void => undefined;
  const line = (write: (text: string) => void) => (o: object, m: string) =>
    write(`[backwire ${name}] ${m}${Object.keys(o).length === 0 ? '' : ` ${detail(o)}`}`);
  return {
    debug: silent,
    info: silent,
    warn: line((text) => console.warn(text)),
    error: line((text) => console.error(text)),
  };
}

function detail(o: object): string {
  const plain = Object.entries(o).map(([key, value]: [string, unknown]) => [
    key,
    value instanceof Error ? (value.stack ?? value.message) : value,
  ]);
  try {
    // What peers say of themselves is among it: nothing in it may move the cursor or turn the line around.
    return plainJson(Object.fromEntries(plain));
  } catch {
    return '';
  }
}
