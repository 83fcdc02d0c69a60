/** @file The options of agents and calls, their defaults, and their checks. Times are milliseconds: undefined = the default, 0 = no limit. */
import { optionNames, unknownOption } from '@backwire/tensor/internal';
import type { RpcAgent } from './rpc-agent.ts';
import { invalidArgument } from './errors.ts';
import { show } from './shown.ts';

export { show } from './shown.ts';

/** What a call may be told; every field is optional. */
export interface CallOptions {
  /**
   * How long the call may take, in milliseconds; 0, and what is longer than 49 days, is no limit; negative or NaN throws RangeError.
   * @default the agent's `rpcTimeoutMs`
   */
  timeoutMs?: number | undefined;
  /** Cancels the call: it rejects at once with `cancelled`, and the handler's own signal aborts. */
  signal?: AbortSignal | undefined;
  /**
   * A call that is sent again, with the same key and the same arguments, joins the one that runs or gets what came of it instead of running
   * again; each keeps its own limits. A try that was cancelled or too late leaves nothing. Other arguments under the key fail with
   * 'failed-precondition'. `newIdempotencyKey()` draws one.
   */
  idempotencyKey?: string | undefined;
  /**
   * Whether it starts in its turn: after the calls that this worker sent there before, and before those it sends later, however large their
   * arguments are. Calls that are not ordered start when their arguments are there.
   * @default true
   */
  ordered?: boolean | undefined;
  /** The agent to call from. @default the current one */
  agent?: RpcAgent | undefined;
}

/** Arguments and options: the arguments may be left out when none is required. */
export type Rest<A extends readonly unknown[], O = CallOptions> = [] extends A
  ? [args?: Readonly<A>, options?: O]
  : [args: Readonly<A>, options?: O];

/** How a stream may be called. `timeoutMs` defaults to 0: a stream lasts as long as it lasts. */
export interface StreamOptions extends CallOptions {
  /** The longest wait for the next item, in milliseconds; 0 = no limit. @default 0 */
  idleTimeoutMs?: number | undefined;
  /** How many items the producer may be ahead of the consumer. @default 16 */
  highWaterItems?: number | undefined;
}

/**
 * How peers prove who they are and what hides the bytes on the way. Where nothing does ('hmac', 'none'), what goes by TCP beyond loopback
 * carries checksums; on loopback too with `checksums: true`, nowhere with `false`: then altered bytes are noticed where they make no sense only.
 */
export type Security =
  | { mode: 'psk' | 'hmac'; secret?: string | Uint8Array; secretFile?: string; checksums?: boolean }
  | { mode: 'mtls'; key: string; cert: string; ca: string }
  | { mode: 'none'; iUnderstand: true; checksums?: boolean };

/** When a silent peer is doubted and when it is given up, in milliseconds. */
export interface Liveness {
  /** A ping after this much silence. @default 2000 */
  pingMs: number;
  /** Silence after which a peer is suspect. @default 6000 */
  suspectMs: number;
  /** Silence after which a peer is doubted. @default 15000 */
  deadMs: number;
  /** The same for a peer that is known to be alive and busy. @default 60000 */
  busyDeadMs: number;
  /** How long a lost connection is redialled before the peer is doubted. @default 10000 */
  reconnectGraceMs: number;
  /** The lease a worker holds in the store. @default 10000 */
  leaseMs: number;
}

/** What one peer may make this agent hold. */
export interface Limits {
  /** The bytes of one message, tensors included. A larger one is refused where it is sent, with `resource-exhausted`. @default 1 GiB */
  maxMessageBytes: number;
  /** What of one message is not tensors. @default 256 MiB */
  maxFrameBytes: number;
  /**
   * Values inside one message, all levels together; packed numbers and typed arrays count as one. Room for each takes about 64 bytes, so
   * that this is what `maxFrameBytes` allows. @default 4194304
   */
  maxValues: number;
  /** UTF-8 bytes of one string. @default 256 MiB */
  maxStringBytes: number;
  /** Nesting of values. @default 64 */
  maxDepth: number;
  /** Calls of one peer that wait or run here. @default 16384 */
  maxInboundCalls: number;
  /** Bytes that wait to be sent to one peer. @default 256 MiB */
  maxBufferedBytesPerPeer: number;
  /**
   * Bytes of the result of a builtin operation that a peer asks for, and of what a builtin class makes, estimated from the arguments before
   * it is made. Functions of the program are not bounded by it. @default 1 GiB
   */
  maxResultBytes: number;
  /** How many references to values of this worker a peer may hold at once; more are refused with `resource-exhausted`. @default 1000000 */
  maxLiveForks: number;
  /** Autograd contexts; one member may have brought seven eighths of them. @default 12000 */
  maxContexts: number;
}

/** Where an agent says what its program cannot be told by a failed call; `console` is one, and so is a logger of pino. */
export interface Logger {
  debug(o: object, m: string): void;
  info(o: object, m: string): void;
  warn(o: object, m: string): void;
  error(o: object, m: string): void;
}

/**
 * Failures on purpose, by the name of a message type ('PYTHON_CALL'). A name that is no type, or one that agents never send, is refused.
 * `debugInfo()['agent.injected_faults']` counts what came of them.
 */
export interface FaultInjection {
  /**
   * How many first sends of that type fail. A request that fails rejects with 'unavailable', `executed: 'no'`; an answer that fails is
   * replaced by that failure, `executed: 'yes'`; control is sent again, after 10 ms and then ever more up to a second, until it goes.
   */
  failFirst?: Partial<Record<string, number>>;
  /** By how many milliseconds each send of that type is held back; control of other types behind it to the same worker waits with it. */
  delayMs?: Partial<Record<string, number>>;
}

const MIB = 1024 * 1024;

export const DEFAULT_LIMITS: Readonly<Limits> = Object.freeze({
  maxMessageBytes: 1024 * MIB,
  maxFrameBytes: 256 * MIB,
  maxValues: 4 * MIB,
  maxStringBytes: 256 * MIB,
  maxDepth: 64,
  maxInboundCalls: 16_384,
  maxBufferedBytesPerPeer: 256 * MIB,
  maxResultBytes: 1024 * MIB,
  maxLiveForks: 1_000_000,
  maxContexts: 12_000,
});

export const DEFAULT_LIVENESS: Readonly<Liveness> = Object.freeze({
  pingMs: 2_000,
  suspectMs: 6_000,
  deadMs: 15_000,
  busyDeadMs: 60_000,
  reconnectGraceMs: 10_000,
  leaseMs: 10_000,
});

export const DEFAULT_RPC_TIMEOUT_MS = 60_000;
export const DEFAULT_INIT_TIMEOUT_MS = 300_000;
export const DEFAULT_CONCURRENT_CALLS = 1_024;
export const DEFAULT_HIGH_WATER_ITEMS = 16;

/** The longest time that the header of a call can tell, 49.7 days: one more means that there is no limit. */
const MAX_TIME_MS = 2 ** 32 - 2;

/**
 * A time as the caller gave it, in whole milliseconds: a fraction is rounded up, so that no tiny time becomes "no limit". One that is
 * longer than can be told, or Infinity, is none: whoever gives a hundred years does not want an end after seven weeks.
 * @throws RangeError when it is negative or NaN, TypeError when it is no number at all.
 */
export function checkTimeoutMs(value: number, name = 'timeoutMs'): number {
  if (typeof value !== 'number') {
    throw new TypeError(`${name} is a number of milliseconds, got ${typeof value} ${show(value)}`);
  }
  if (Number.isNaN(value) || value < 0) {
    throw new RangeError(`RPC Timeout must be non-negative: ${name} is ${value}`);
  }
  return value > MAX_TIME_MS ? 0 : Math.ceil(value);
}

/** @throws TypeError unless it is a boolean or left out: other values would be taken for one or the other. */
export function checkSwitch(given: unknown, name: string): void {
  if (given === undefined || typeof given === 'boolean') return;
  throw new TypeError(`${name} is true or false, got ${show(given)}`);
}

export function checkOrdered(ordered: unknown): void {
  checkSwitch(ordered, 'ordered');
}

/** @throws TypeError for what is no `AbortSignal`; checked here because it would fail later, in words about something else. */
export function checkSignal(signal: unknown): void {
  if (signal === undefined) return;
  const { aborted, addEventListener } = (signal ?? {}) as Partial<AbortSignal>;
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function') return;
  throw new TypeError(`signal is an AbortSignal, got ${show(signal)}: give controller.signal, not the controller`);
}

/** @throws TypeError unless `options` is an object or left out. */
export function checkOptions(options: unknown, what: string): void {
  if (options === undefined || (typeof options === 'object' && options !== null && !Array.isArray(options))) return;
  throw new TypeError(`the options of ${what} are an object, got ${show(options)}`);
}

/** @throws TypeError for an option that is given and lacks one of the methods of what it is to be. */
export function checkMethods(given: unknown, methods: readonly string[], name: string, kind: string): void {
  if (given !== undefined) requireMethods(given, methods, name, kind);
}

/** As `checkMethods`, of what has to be there. @throws TypeError for undefined too. */
export function requireMethods(given: unknown, methods: readonly string[], name: string, kind: string): void {
  const object = given as Record<string, unknown> | null | undefined;
  const lacking = methods.find((method) => typeof object?.[method] !== 'function');
  if (lacking === undefined) return;
  throw new TypeError(`${name} is ${kind}, got ${show(given)}, which has no ${lacking}()`);
}

/** @throws TypeError for what is no list of names; nothing, and null, stand for all workers. */
export function checkWorkers(workers: unknown, what: string): void {
  if (workers === undefined || workers === null || Array.isArray(workers)) return;
  throw new TypeError(`workers of ${what} is a list of names, got ${show(workers)}`);
}

/** @throws TypeError when the arguments of a call are no list: programs without types may have forgotten the brackets. */
export function checkArguments(args: unknown, name: string): void {
  if (args === undefined || Array.isArray(args)) return;
  throw new TypeError(`the arguments of a call are a list, for '${name}' too; got ${typeof args}`);
}

/** @throws RpcError 'invalid-argument' for an option that `what` does not have, with the nearest that it has; TypeError for no object. */
export function refuseUnknown(options: object | undefined, known: ReadonlySet<string>, what: string): void {
  if (options === undefined) return;
  checkOptions(options, what);
  const wrong = unknownOption(options, known, what);
  if (wrong !== undefined) throw invalidArgument(wrong);
}

/** The names of the options of each kind. */
export const CALL_OPTIONS = optionNames<CallOptions>()('timeoutMs signal idempotencyKey ordered agent');
export const STREAM_OPTIONS = optionNames<StreamOptions>()(
  'timeoutMs signal idempotencyKey ordered agent idleTimeoutMs highWaterItems',
);
/** By mode. */
const SECURITY_OPTIONS: Readonly<Record<Security['mode'], ReadonlySet<string>>> = {
  psk: new Set(['mode', 'secret', 'secretFile']),
  hmac: new Set(['mode', 'secret', 'secretFile', 'checksums']),
  mtls: new Set(['mode', 'key', 'cert', 'ca']),
  none: new Set(['mode', 'iUnderstand', 'checksums']),
};

/** @throws RpcError 'invalid-argument' for a mode that there is not, or an option that it does not have; TypeError for no object. */
export function checkSecurityOptions(security: Security | undefined): void {
  if (security === undefined) return;
  checkOptions(security, 'security');
  const mode: unknown = security.mode;
  if (typeof mode !== 'string' || !Object.hasOwn(SECURITY_OPTIONS, mode)) {
    const got = mode === undefined ? 'none was given' : `got ${show(mode)}`;
    const tls = typeof mode === 'string' && /tls|ssl|https/i.test(mode) ? TLS_ADVICE : '';
    throw invalidArgument(`security.mode is one of ${Object.keys(SECURITY_OPTIONS).join(', ')}; ${got}${tls}`);
  }
  refuseUnknown(security, SECURITY_OPTIONS[mode as Security['mode']], `security of mode '${mode}'`);
  for (const [name, value] of Object.entries<unknown>(security)) checkSecurityOption(name, value);
  if (security.mode === 'mtls')
    for (const name of ['key', 'cert', 'ca'] as const)
      if ((security[name] as unknown) === undefined) throw new TypeError(`security of mode 'mtls' needs a ${name}`);
}

/** Values are not shown: they may be secrets. */
function checkSecurityOption(name: string, value: unknown): void {
  if (value === undefined) return;
  const type = value === null ? 'null' : typeof value;
  if (['key', 'cert', 'ca', 'secretFile'].includes(name) && type !== 'string')
    throw new TypeError(
      `security.${name} is a text${name === 'secretFile' ? ', a path' : ': PEM, or a path'}; got ${type}`,
    );
  if (name === 'secret' && type !== 'string' && !(value instanceof Uint8Array))
    throw new TypeError(`security.secret is a text or a Uint8Array; got ${type}`);
  if (['checksums', 'iUnderstand'].includes(name) && type !== 'boolean')
    throw new TypeError(`security.${name} is true or false; got ${type}`);
}

const TLS_ADVICE =
  ": with a shared secret TLS is { mode: 'psk', secret }, with certificates { mode: 'mtls', key, cert, ca }";

/** @throws TypeError unless `fn`, which `what` is to run, is a function. */
export function checkFunction(fn: unknown, what: string): void {
  if (typeof fn !== 'function')
    throw new TypeError(`${what} runs a function, as in ${what.replace('()', '')}(async () => { … }); got ${show(fn)}`);
}

/** `given` over the defaults; every value has to be a positive number. */
export function fillNumbers<T extends object>(defaults: Readonly<T>, given: Partial<T> | undefined, what: string): T {
  const filled = { ...defaults } as Record<string, number>;
  refuseUnknown(given, new Set(Object.keys(defaults)), what);
  for (const [key, value] of Object.entries(given ?? {})) {
    if (value === undefined) continue;
    if (typeof value !== 'number' || !(value > 0))
      throw new RangeError(`${what}.${key} must be positive, got ${show(value)}`);
    filled[key] = value;
  }
  return filled as T;
}
