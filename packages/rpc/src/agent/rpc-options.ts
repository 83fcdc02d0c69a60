/** @file What an agent is started with. Times are milliseconds: undefined = the default, 0 = no limit. */
import type { Named } from '@backwire/tensor';
import { optionNames } from '@backwire/tensor/internal';
import {
  checkMethods,
  checkOptions,
  checkSecurityOptions,
  refuseUnknown,
  show,
  type FaultInjection,
  type Limits,
  type Liveness,
  type Logger,
  type Security,
} from '../base/options.ts';
import { invalidArgument } from '../base/errors.ts';
import type { Extension } from '../extensions/extension.ts';
import type { Store } from '../stores/store.ts';

/** What an agent is started with; all but `name` is optional. Times are milliseconds; 0 = no limit. */
export interface RpcOptions {
  /** This worker's name, unique in the group. */
  name: string;
  /** This worker's id. @default RANK, else the next free one in the store */
  rank?: number;
  /** How many workers the group waits for. @default WORLD_SIZE, else 1 when static */
  worldSize?: number;
  /** Whether the group is closed once `worldSize` workers are there. @default 'static' when a world size is known */
  membership?: 'static' | 'dynamic';
  /** A store, or where one is: 'memory://name', 'tcp://host:port', 'file:///path'. @default from MASTER_ADDR and MASTER_PORT */
  store?: Store | string;
  /** Separates groups that share a store. @default 'default' */
  group?: string;
  /** The default of `timeoutMs` of calls, in milliseconds. @default 60000 */
  rpcTimeoutMs?: number;
  /** How long to wait for the group, in milliseconds; 0 = no limit. @default 300000 */
  initTimeoutMs?: number;
  /** Transports in order of preference; each pair of workers uses the first that reaches. @default ['memory', 'port', 'unix', 'tcp'] */
  transports?: readonly string[];
  /** Ways of tensor bytes in order of preference. @default ['inline'] */
  channels?: readonly string[];
  /** The address to listen on. @default loopback */
  bind?: string;
  /** The name or address of this host that peers are told; an address 'wss://…' is told for WebSockets alone. @default the one bound */
  advertise?: string;
  /**
   * How peers prove who they are and what hides the bytes on the way. @default by BACKWIRE_SECRET or BACKWIRE_SECRET_FILE; without one,
   * nothing listens beyond loopback
   */
  security?: Security;
  /** Where tensors arrive: for each peer by name, a device there for each device here. @default the cpu */
  deviceMaps?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** What one peer may make this agent hold; what is left out has its default. */
  limits?: Partial<Limits>;
  /** When a silent peer is doubted and when it is given up, in milliseconds; what is left out has its default. */
  liveness?: Partial<Liveness>;
  /** Handlers that may run at once; one that awaits an outgoing call does not count. @default 1024 */
  maxConcurrentCalls?: number;
  /** What adds to the agent. The package `backwire` adds remote references, autograd and profiling to these by itself. @default none */
  extensions?: readonly Extension[];
  /**
   * What calls may name here: functions, and classes, with their constructors and published methods. A list narrows it to its entries;
   * whoever calls, this worker itself included.
   * @default 'all-defined'
   */
  serve?: readonly Named[] | 'all-defined';
  /**
   * Whether calls may also name what the tensor package defines: operations ('aten::add'), the operations of tensors behind RRefs, the
   * classes of `nn` and `optim`. Those named in `serve` are served in any case.
   * @default true, but false where `serve` is a list
   */
  builtins?: boolean;
  /**
   * Whether a call notes the line of the program that makes it, so that the stack of its failure names it ('at your train.ts:42'). It
   * costs several microseconds a call: half the time of one that is waited for alone, more than all of it with many on their way. So by
   * default two hundred calls a second do, less than a hundredth of the time; with true all of them do, with false none. The
   * function and the worker are named in any case, and the line of what fails before it is sent. @default two hundred a second, or what
   * BACKWIRE_CALL_SITES says: 1 for all, 0 for none
   */
  callSites?: boolean;
  /** What is told of the agent's life. @default one that prints warnings and errors */
  logger?: Logger;
  /** Failures on purpose, for tests. @default none */
  faults?: FaultInjection;
}

const RPC_OPTIONS = optionNames<RpcOptions>()(
  'name rank worldSize membership store group rpcTimeoutMs initTimeoutMs transports channels bind',
  'advertise security deviceMaps limits liveness maxConcurrentCalls extensions serve builtins callSites',
  'logger faults',
);
/** What a logger has to have. */
export const LOGGER_METHODS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[];
const STORE_METHODS = [...optionNames<Store>()('set get wait add compareAndSet delete list watch lease close')];
const FAULT_OPTIONS = optionNames<FaultInjection>()('failFirst delayMs');

/** Refuses what no agent can be told, those parts of it that have names of their own, and what is no store or logger. @throws RpcError, TypeError as `refuseUnknown`. */
export function checkRpcOptions(options: RpcOptions, what: string): void {
  refuseUnknown(options, RPC_OPTIONS, what);
  refuseUnknown(options.faults, FAULT_OPTIONS, `${what}: faults`);
  checkSecurityOptions(options.security);
  checkOptions(options.deviceMaps, `${what}: deviceMaps`);
  if (options.bind !== undefined && typeof options.bind !== 'string')
    throw new TypeError(`bind is the name or the address to listen on, got ${show(options.bind)}`);
  checkMethods(options.logger, LOGGER_METHODS, 'logger', 'an object such as console');
  if (typeof options.store !== 'string') checkMethods(options.store, STORE_METHODS, 'store', 'an address or a store');
}

/** A host alone, or an address for WebSockets. */
const ADVERTISED = /^(?:wss?:\/\/\S+|[^\s:/@?#[\]]+|(?=.*:.*:)[\da-fA-F:.]+(?:%[\w.-]+)?)$/;

/** Refuses what peers could not dial, before they are told it. @throws RpcError 'invalid-argument'. */
export function checkAdvertised(advertise: unknown): void {
  if (advertise === undefined || (typeof advertise === 'string' && ADVERTISED.test(advertise))) return;
  throw invalidArgument(
    `advertise is ${show(advertise)}: give the name or the address of a host, without a port, since peers are told the one that ` +
      `is listened on; or for WebSockets an address such as 'wss://example.com/backwire'`,
  );
}
