/** @file How a torch group is joined: the options, checked and filled in with what the environment says. */
import { RpcError, type Logger } from '@backwire/rpc';
import { checkMethods, checkTimeoutMs, LOGGER_METHODS, plainJson, refuseUnknown, show } from '@backwire/rpc/internal';
import type { Named } from '@backwire/tensor';
import { optionNames } from '@backwire/tensor/internal';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from './limits.ts';
import { CHANNELS } from './pipe/handshake.ts';

/** How `joinTorch` and `createTorchAgent` join a group: which one, as whom, and what its members may call here. */
export interface TorchOptions {
  /** This worker's name, unique in the group. No '-' and no ',' in a dynamic one. */
  readonly name: string;
  /** This worker's rank in a static group, or its id in a dynamic one. @default RANK; in a dynamic group a fresh id from 1000 up */
  readonly rank?: number | undefined;
  /** How many workers the group has. @default WORLD_SIZE; without both the group is dynamic */
  readonly worldSize?: number | undefined;
  /** Whether the size of the group is fixed. @default 'static' where a world size is known */
  readonly membership?: 'static' | 'dynamic' | undefined;
  /** Where the group's store is: 'tcp://host:port', or 'env://' for MASTER_ADDR and MASTER_PORT. @default 'env://' */
  readonly initMethod?: string | undefined;
  /**
   * Has to be true: nothing in a torch group is authenticated or encrypted, and whoever reaches its ports can run code in its Python
   * workers.
   */
  readonly trustNetwork: boolean;
  /** The address to listen on. @default the one from which the store is reached */
  readonly bind?: string | undefined;
  /** The address that the others are told, behind a router. @default `bind`, or for '0.0.0.0' the one from which the store is reached */
  readonly advertise?: string | undefined;
  /** The default of `timeoutMs` of calls, in milliseconds. @default 60000 */
  readonly rpcTimeoutMs?: number | undefined;
  /** How long to wait for the group, in milliseconds; 0 = no limit. @default 300000 */
  readonly initTimeoutMs?: number | undefined;
  /** What Python may name here. @default 'all-defined' */
  readonly serve?: readonly Named[] | 'all-defined' | undefined;
  /** Whether Python may also name what the tensor package defines. @default true, but false where `serve` is a list */
  readonly builtins?: boolean | undefined;
  /** What one peer, or one file, may ask for: lengths, depths, bytes. What is not named stays as it is. */
  readonly limits?: Partial<TorchLimits> | undefined;
  /**
   * What carries tensors, as torch's `_channels`: 'basic' between any two workers, 'backwire' between two of this kind, which have one
   * connection then instead of three. @default both
   */
  readonly channels?: readonly ('basic' | 'backwire')[] | undefined;
  /** Workers of a dynamic group that are known to be dead: they are put out of it, and do not keep this one from joining. */
  readonly evict?: readonly string[] | undefined;
  /**
   * How many times the processes of the group have called `init_rpc` before.
   * @default in a static group, how often this worker has joined at that store; in a dynamic one 0
   */
  readonly generation?: number | undefined;
  /** Where the agent says what it notices. @default one that prints warnings and errors */
  readonly logger?: Logger | undefined;
}

/** The options of one worker, checked. */
export interface TorchSettings {
  readonly name: string;
  readonly rank: number | undefined;
  readonly size: number | undefined;
  readonly store: { readonly host: string; readonly port: number };
  /** Under torchrun the store is its own, and nobody is counted in. */
  readonly storeServed: boolean;
  readonly bind: string | undefined;
  readonly advertise: string | undefined;
  readonly rpcTimeoutMs: number;
  readonly initTimeoutMs: number;
  readonly serve: readonly Named[] | undefined;
  readonly builtins: boolean;
  readonly limits: TorchLimits;
  readonly channels: readonly string[];
  readonly evict: readonly string[];
  readonly generation: number | undefined;
  readonly logger: Logger;
}

const OPTIONS = optionNames<TorchOptions>()(
  'name rank worldSize membership initMethod trustNetwork bind advertise rpcTimeoutMs initTimeoutMs serve builtins limits',
  'channels evict generation logger',
);

type Environment = Readonly<Record<string, string | undefined>>;

/** @throws RpcError 'failed-precondition' without `trustNetwork`, 'invalid-argument'; TypeError, RangeError. */
export function settle(options: TorchOptions, env: Environment): TorchSettings {
  if (typeof options !== 'object' || options === null)
    throw new TypeError("joinTorch needs options: at least { name: 'web', trustNetwork: true }");
  if (options.trustNetwork !== true) {
    const text =
      'nothing in a torch group is authenticated or encrypted, and whoever reaches its ports can run code in its Python workers: say trustNetwork: true where the network lets nobody else in';
    throw new RpcError('failed-precondition', text);
  }
  checkKinds(options);
  const rank = options.rank ?? numberOf(env['RANK'], 'RANK');
  const worldSize =
    options.worldSize ?? (options.membership === 'dynamic' ? undefined : numberOf(env['WORLD_SIZE'], 'WORLD_SIZE'));
  const membership = options.membership ?? (worldSize === undefined ? 'dynamic' : 'static');
  const dynamic = membership === 'dynamic';
  checkName(options.name, dynamic);
  if (!dynamic) checkPlace(rank, worldSize);
  else if (rank !== undefined) checkRange(rank, 0x7fff, 'rank');
  const serve = options.serve === 'all-defined' ? undefined : options.serve;
  return {
    name: options.name,
    // A rank of the environment is for the workers of a static group.
    rank: dynamic ? options.rank : rank,
    size: dynamic ? undefined : worldSize,
    store: storeOf(options.initMethod ?? 'env://', env),
    storeServed: env['TORCHELASTIC_USE_AGENT_STORE'] === 'True' && (options.initMethod ?? 'env://') === 'env://',
    bind: options.bind,
    advertise: options.advertise,
    rpcTimeoutMs: checkTimeoutMs(options.rpcTimeoutMs ?? 60_000, 'rpcTimeoutMs'),
    initTimeoutMs: checkTimeoutMs(options.initTimeoutMs ?? 300_000, 'initTimeoutMs'),
    serve,
    builtins: options.builtins ?? serve === undefined,
    limits: limitsOf(options.limits),
    channels: channelsOf(options.channels),
    evict: options.evict ?? [],
    generation: options.generation,
    logger: options.logger ?? consoleLogger(options.name),
  };
}

/** What programs without types may give instead: it would fail later, in words about something else, or do nothing. */
function checkKinds(options: TorchOptions): void {
  refuseUnknown(options, OPTIONS, 'joinTorch()');
  const { membership, serve, limits, generation, logger } = options;
  const need = (fits: boolean, name: string, what: string, got: unknown): void => {
    if (!fits) throw new TypeError(`${name} is ${what}, got ${show(got)}`);
  };
  for (const name of ['initMethod', 'bind', 'advertise'] as const)
    need(options[name] === undefined || typeof options[name] === 'string', name, 'a text', options[name]);
  for (const name of ['channels', 'evict'] as const)
    need(options[name] === undefined || Array.isArray(options[name]), name, 'a list', options[name]);
  for (const name of options.evict ?? []) need(typeof name === 'string', 'evict', 'a list of names', name);
  need([undefined, true, false].includes(options.builtins), 'builtins', 'true or false', options.builtins);
  need([undefined, 'static', 'dynamic'].includes(membership), 'membership', "'static' or 'dynamic'", membership);
  need(
    serve === undefined || serve === 'all-defined' || Array.isArray(serve),
    'serve',
    "a list or 'all-defined'",
    serve,
  );
  if (generation !== undefined) checkRange(generation, Number.MAX_SAFE_INTEGER, 'generation');
  checkMethods(logger, LOGGER_METHODS, 'logger', 'an object such as console');
  if (limits === undefined) return;
  refuseUnknown(limits, new Set(Object.keys(DEFAULT_TORCH_LIMITS)), 'the limits of joinTorch()');
  for (const [name, limit] of Object.entries(limits))
    need(limit === undefined || (typeof limit === 'number' && limit > 0), `limits.${name}`, 'a positive number', limit);
}

/** A limit that is given as undefined is the usual one. */
function limitsOf(given: Partial<TorchLimits> = {}): TorchLimits {
  const set = Object.entries(given).filter(([, limit]) => limit !== undefined);
  return { ...DEFAULT_TORCH_LIMITS, ...Object.fromEntries<number>(set) };
}

function channelsOf(given: readonly string[] = [...CHANNELS.keys()]): readonly string[] {
  if (given.includes('basic') && given.every((channel) => CHANNELS.has(channel))) return given;
  const text = `channels are some of ${[...CHANNELS.keys()].join(', ')}, 'basic' always among them; got ${given.join(', ')}`;
  throw invalid(text);
}

const NAME = /^[A-Za-z0-9\-_:]{1,127}$/;

function checkName(name: unknown, dynamic: boolean): void {
  if (typeof name !== 'string' || !NAME.test(name))
    throw invalid(`a worker's name is letters, digits, '-', '_' and ':', at most 127 of them; got ${String(name)}`);
  if (dynamic && name.includes('-'))
    throw invalid(
      `a worker of a dynamic torch group may have no '-' in its name, since torch takes names apart there: '${name}'`,
    );
}

function checkPlace(rank: number | undefined, size: number | undefined): void {
  if (size === undefined) throw invalid('a static group needs worldSize, or WORLD_SIZE in the environment');
  checkRange(size, 0x8000, 'worldSize');
  if (size < 1) throw invalid(`worldSize is positive, got ${size}`);
  if (rank === undefined) throw invalid('a worker of a static torch group needs its rank, or RANK in the environment');
  checkRange(rank, size - 1, 'rank');
}

function checkRange(value: number, high: number, what: string): void {
  if (!Number.isInteger(value) || value < 0 || value > high)
    throw invalid(`${what} is a whole number from 0 to ${high}, got ${show(value)}`);
}

function storeOf(method: string, env: Environment): { host: string; port: number } {
  if (method === 'env://') {
    const host = env['MASTER_ADDR'];
    const port = numberOf(env['MASTER_PORT'], 'MASTER_PORT');
    if (host === undefined || host === '' || port === undefined)
      throw invalid('initMethod env:// needs MASTER_ADDR and MASTER_PORT; or give tcp://host:port');
    return { host, port };
  }
  const match = /^tcp:\/\/(?:\[([^\]]+)\]|([^/:]+)):(\d{1,5})$/.exec(method);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 0xffff)
    throw invalid(`initMethod is 'tcp://host:port' or 'env://', got '${method.slice(0, 100)}'`);
  return { host: (match[1] ?? match[2]) as string, port };
}

function numberOf(text: string | undefined, name: string): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw invalid(`${name} is not a number: '${text}'`);
  return Number(text);
}

function shown([key, value]: [string, unknown]): [string, unknown] {
  return [key, value instanceof Error ? value.message : value];
}

function consoleLogger(name: string): Logger {
  const line = (write: (text: string) => void) => (o: object, m: string) =>
    write(`[backwire torch ${name}] ${m} ${plainJson(Object.fromEntries(Object.entries(o).map(shown)))}`);
  return {
    debug: () => undefined,
    info: () => undefined,
    warn: line((text) => console.warn(text)),
    error: line((text) => console.error(text)),
  };
}

function invalid(text: string): RpcError {
  return new RpcError('invalid-argument', text);
}
