/** @file Opens the store of a group by its address. */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bareText, invalidArgument, RpcError } from '../base/errors.ts';
import { sha256 } from '../security/digest.ts';
import { toHex } from '../security/keys.ts';
import { resolveSecurity, type ResolvedSecurity } from '../security/policy.ts';
import { hostText, parseHostPort } from '../transports/dialling.ts';
import { storeTransport } from '../transports/select.ts';
import { checkRedisAddress, joinAddress, splitAddress, withoutPassword } from './address.ts';
import { embeddedStore } from './embedded.ts';
import { serveStore, type ServeStoreOptions, type StoreServer } from './embedded-server.ts';
import { etcdStore } from './etcd.ts';
import { fileStore } from './file.ts';
import { memoryStore } from './memory.ts';
import { openLimited, throwIfCancelled, type OpeningLimits } from './opening.ts';
import { prefixStore } from './prefix.ts';
import { announceGroup } from './registry.ts';
import { redisStore } from './redis.ts';
import { torchClient } from './torch-client.ts';
import { shareStore } from './shared-store.ts';
import type { OpenStoreOptions, Store } from './store.ts';

const STORE_KINDS = ['memory://name', 'tcp://host:port', 'file:///directory', 'etcd://host:port', 'redis://host:port'];
/** A rank that serves no store itself. */
const NOT_FIRST = 1;

/** A store and whether whoever opened it has to close it. */
export interface OpenedStore {
  readonly store: Store;
  /** False for a store object that was passed in. */
  readonly owned: boolean;
}

/**
 * The store that `option` names: a store object, 'memory://name', 'tcp://host:port', 'file:///directory', 'etcd://host:port',
 * 'redis://host:port', each with `?prefix=` for a part of it, or undefined for what the environment names: BACKWIRE_STORE, an address, with BACKWIRE_STORE_PREFIX before every
 * key; else MASTER_ADDR and MASTER_PORT. With `group`, all keys live under it.
 *
 * @throws RpcError 'invalid-argument' for an address of no known kind; 'unavailable' when the store is out of reach or its port taken;
 *   'deadline-exceeded', 'cancelled', 'unauthenticated'.
 */
export async function openStore(
  option: Store | string | undefined,
  options: OpenStoreOptions = {},
): Promise<OpenedStore> {
  const { signal, group } = options;
  throwIfCancelled(signal);
  const owned = typeof option !== 'object';
  const store = option === undefined ? await openGiven(options) : owned ? await openAddress(option, options) : option;
  return { store: group === undefined ? store : prefixStore(store, `${group}/`, { owned }), owned };
}

/** The store that the environment names. */
async function openGiven(options: OpenStoreOptions): Promise<Store> {
  const address = process.env['BACKWIRE_STORE'];
  if (address === undefined || address === '') return openAddress(masterAddress(), options);
  const store = await openAddress(address, options);
  const prefix = process.env['BACKWIRE_STORE_PREFIX'] ?? '';
  return prefix === '' ? store : prefixStore(store, prefix, { owned: true });
}

/** 'tcp://host:port', or with `?prefix=` the part of it in which a group keeps its keys. */
async function openAddress(given: string, options: OpenStoreOptions): Promise<Store> {
  const { bare, prefix } = splitAddress(given);
  const isLaunched = process.env['BACKWIRE_STORE_HOSTED'] === '1' || prefix.startsWith(LAUNCHED);
  if (isLaunched) options = { ...options, security: bySecret(options.security) };
  // Whoever gave an address with a prefix was told of a group that is there: nobody serves another at its place.
  const store = await openBare(bare, prefix === '' ? options : { ...options, rank: options.rank || NOT_FIRST });
  return prefix === '' ? store : prefixStore(store, prefix, { owned: true });
}

/** How the part of a store begins that `backwire run` gives to a group. */
const LAUNCHED = 'backwire/runs/';

/** A launcher has no certificates: its store is proved by the secret of the environment, by workers that have some, too. */
function bySecret(security: ResolvedSecurity | undefined): ResolvedSecurity | undefined {
  return security?.mode === 'mtls' && !security.automatic ? { ...security, mode: 'psk', mtls: undefined } : security;
}

/** Addresses that may have an @: of a user, or in a name. */
const TAKES_AT = /^(?:rediss?|memory):/;

async function openBare(address: string, options: OpenStoreOptions): Promise<Store> {
  const scheme = /^([a-z]+):\/\//.exec(address)?.[1];
  if (!TAKES_AT.test(address) && /^[^:]+:\/\/[^/]*@/.test(address)) {
    const text = `the store ${withoutPassword(address)} was given with a user, which only redis:// and rediss:// have`;
    throw invalidArgument(text);
  }
  switch (scheme) {
    case 'memory':
      return memoryStore(address.slice('memory://'.length));
    case 'tcp':
      return openEmbedded(address, options);
    case 'etcd':
    case 'etcds':
      return openServer(address, options, (limits) => etcdStore({ endpoints: etcdEndpoints(address), ...limits }));
    case 'redis':
    case 'rediss':
      checkRedisAddress(address);
      return openServer(address, options, (limits) => redisStore({ url: address, ...limits }));
    case 'file':
      return fileStore(folderOf(address), options);
    default:
      throw invalidArgument(
        `'${withoutPassword(address)}' names no kind of store; ${meant(address) ?? `there are ${STORE_KINDS.join(', ')}`}`,
      );
  }
}

/** A store in a server that is not ours: all of this process that name it alike are one client of it. */
function openServer(
  address: string,
  { signal, timeoutMs }: OpenStoreOptions,
  open: (limits: OpeningLimits) => Promise<Store>,
): Promise<Store> {
  const key = `${withoutPassword(address)} ${address}`;
  return shareStore(key, { signal, timeoutMs }, (ms) => open({ signal, timeoutMs: ms }));
}

/** Rank 0 serves the store at that address, unless a launcher already does; everyone connects to it. */
async function openEmbedded(address: string, options: OpenStoreOptions): Promise<Store> {
  const rank = options.rank ?? rankOfEnvironment();
  if (process.env['BACKWIRE_STORE_HOSTED'] === '1') return connectTo(address, options);
  if (process.env['TORCHELASTIC_USE_AGENT_STORE'] === 'True') return openUnderTorchrun(address, rank, options);
  return rank === 0 ? host(parseHostPort(address, 'tcp'), options) : connectTo(address, options);
}

/**
 * torchrun's agent serves a store of torch's at that address, without leases, watches or proof. It only tells the others where rank 0
 * serves ours. Each restart of the group has its own.
 */
function openUnderTorchrun(address: string, rank: number | undefined, options: OpenStoreOptions): Promise<Store> {
  const { TORCHELASTIC_RUN_ID: run = '', TORCHELASTIC_RESTART_COUNT: restart = '0' } = process.env;
  const key = `backwire/${run}/${restart}/store`;
  return openLimited(options, async (signal) => {
    const torch = await torchClient(address, { signal });
    try {
      if (rank !== 0) return await connectTo(new TextDecoder().decode(await torch.waitFor(key)), options);
      return await host({ host: torch.localHost.replace(/^::ffff:/, ''), port: 0 }, options, (endpoint) =>
        torch.set(key, new TextEncoder().encode(endpoint.replace(/^tls:/, 'tcp:'))),
      );
    } finally {
      torch.close();
    }
  });
}

function connectTo(address: string, options: OpenStoreOptions): Promise<Store> {
  const { signal, timeoutMs } = options;
  const { host, port } = parseHostPort(address, 'tcp');
  const security = options.security ?? resolveSecurity(undefined, { bind: host });
  const transport = storeTransport(host, security);
  const endpoint = `${transport.name}://${hostText(host)}:${port}`;
  const connect = (ms: number | undefined): Promise<Store> =>
    embeddedStore({ endpoint, keys: security.keys, signal, timeoutMs: ms, transport });
  // Certificates may differ between two agents of one process.
  if (transport.name !== 'tcp') return connect(timeoutMs);
  const secrets = security.keys?.map((key) => toHex(sha256(key.secret))) ?? [];
  return shareStore([endpoint, ...secrets].join(' '), { signal, timeoutMs }, connect);
}

/** Why the port of the group's store is taken, and what to do; undefined for another failure. */
function taken(error: unknown): RpcError | undefined {
  if (!(error instanceof RpcError) || (error.cause as { code?: unknown } | undefined)?.code !== 'EADDRINUSE')
    return undefined;
  const why = 'rank 0 serves the store of its group there: is another worker of rank 0, or another program, running?';
  return new RpcError(
    'unavailable',
    // With all there is to know: causes would only say the same again, each with a stack of its own.
    `${bareText(error.code, error.message)}; ${why} Stop it, or give another MASTER_PORT or store`,
  );
}

/** Serves a store and opens it; `announce` tells others where it is before it is opened. */
async function host(
  at: { host: string; port: number },
  options: OpenStoreOptions,
  announce?: (endpoint: string) => Promise<void>,
): Promise<Store> {
  const { signal, timeoutMs } = options;
  const security = options.security ?? resolveSecurity(undefined, { bind: at.host });
  const server = await serveStore({ ...at, security, webSocket: doorForBrowsers(), onClose: () => forget() }).catch(
    (error: unknown) => {
      throw taken(error) ?? error;
    },
  );
  const forget = announceGroup({ address: addressOf(server), program: process.argv[1] ?? '' });
  try {
    await announce?.(server.endpoint);
    const transport = storeTransport(at.host, security);
    return await embeddedStore({
      endpoint: server.endpoint,
      keys: security.keys,
      signal,
      timeoutMs,
      transport,
      server,
    });
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** What leads to a server, whoever asks. */
export function addressOf({ endpoint, webSocketEndpoint }: StoreServer, prefix = ''): string {
  return joinAddress(endpoint.replace(/^tls:/, 'tcp:'), prefix, webSocketEndpoint);
}

/**
 * With BACKWIRE_STORE_WS, a port (0 = any free one), browsers reach the store there by WebSocket, from pages of BACKWIRE_ALLOWED_ORIGINS.
 */
export function doorForBrowsers(): ServeStoreOptions['webSocket'] {
  const { BACKWIRE_STORE_WS: port = '', BACKWIRE_ALLOWED_ORIGINS: origins } = process.env;
  if (port === '') return undefined;
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
    throw invalidArgument(`BACKWIRE_STORE_WS is not a port: '${port}'`);
  return { port: Number(port), allowedOrigins: origins?.split(',').map((origin) => origin.trim()) };
}

/** 'etcd://a:2379,b:2379' over HTTP; 'etcds://…' over HTTPS. */
function etcdEndpoints(address: string): string[] {
  const [scheme = '', hosts = ''] = address.split('://');
  const all = hosts.replace(/\/$/, '').split(',');
  return all.map((each) => {
    const { host, port } = parseHostPort(`tcp://${each}`, 'tcp');
    return `${scheme === 'etcds' ? 'https' : 'http'}://${hostText(host)}:${port}`;
  });
}

/** What was probably meant by an address without a kind, or with that of a web page. */
function meant(address: string): string | undefined {
  const host = /^(?:https?:\/\/)?([^/\s]+:\d+)\/?$/.exec(address)?.[1];
  if (host !== undefined) return `did you mean 'tcp://${host}'?`;
  return /^\.{0,2}\//.test(address) ? `did you mean '${pathToFileURL(address).href}'?` : undefined;
}

function folderOf(address: string): string {
  try {
    return fileURLToPath(address);
  } catch (error) {
    throw new RpcError('invalid-argument', `'${address}' names no folder: write file:///absolute/folder`, {
      cause: error,
    });
  }
}

function rankOfEnvironment(): number | undefined {
  const rank = process.env['RANK'];
  return rank === undefined || !/^\d+$/.test(rank) ? undefined : Number(rank);
}

function masterAddress(): string {
  const host = process.env['MASTER_ADDR'];
  const port = process.env['MASTER_PORT'];
  if (host === undefined || host === '' || port === undefined || !/^\d+$/.test(port)) {
    const wrong = port !== undefined && host !== undefined ? `: MASTER_PORT is '${port}'` : '';
    throw invalidArgument(
      `no store was given, and MASTER_ADDR and MASTER_PORT do not name one${wrong}; give one, as in store: 'tcp://127.0.0.1:29500', or start the program with 'backwire run'`,
    );
  }
  return `tcp://${hostText(host)}:${port}`;
}
