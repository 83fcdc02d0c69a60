/** @file What a launcher tells its workers and hears of the others: the group's store, served so that any worker may die. */
import { addressOf, announceGroup, doorForBrowsers, serveStore, type StoreServer } from '@backwire/rpc/internal';
import { messageOf, UsageError } from './errors.ts';
import { portError } from './port.ts';
import { keepSecret, NOT_KEPT } from './secret-file.ts';
import type { LaunchSettings } from './settings.ts';
import type { WorkerEnd } from './worker-process.ts';

/** What tells others that a worker is gone. */
export type ExitNotice = Pick<WorkerEnd, 'rank' | 'pid' | 'code' | 'signal'>;

/** Why the workers here have to stop although none of them failed. */
export interface RoundEnd {
  /**
   * 'reformed': another round begins; 'closed': the group has ended; 'removed': the others went on without this host; 'lost': the store
   * is out of reach.
   */
  readonly kind: 'reformed' | 'closed' | 'removed' | 'lost';
  /** For people. */
  readonly why: string;
}

/** One round of a group, as one host sees it. */
export interface GroupRound {
  /** MASTER_ADDR and MASTER_PORT. */
  readonly host: string;
  readonly port: number;
  /** More variables that lead workers to the group. */
  readonly env: Readonly<Record<string, string>>;
  /** This host's place among the hosts. */
  readonly nodeRank: number;
  readonly nodes: number;
  /** The rank of this host's first worker. */
  readonly firstRank: number;
  /** Undefined in a group that grows and shrinks while it runs. */
  readonly worldSize: number | undefined;
  /** Counts the times the workers were started. */
  readonly round: number;
  /** Counts those that a failure was the cause of. */
  readonly restarts: number;
  /** Aborts when the workers have to stop; the reason is a `RoundEnd`. */
  readonly over: AbortSignal | undefined;
  /** Lets the others know at once that a worker is gone. */
  exited(exit: ExitNotice): void;
  /** A rank for a worker in the place of a failed one, whose end is told in words; undefined when it is not to be replaced. Never rejects. */
  replace?(exit: string): Promise<number | undefined>;
}

/** A round of a group on this host alone, with a store of its own. */
export interface LocalGroup extends GroupRound {
  close(): Promise<void>;
}

/**
 * What led this launcher to another group, when it is a worker of one, or was set for other programs: its workers belong to this group
 * alone. Empty is as good as not set.
 */
const NOT_ANOTHER = { BACKWIRE_STORE: '', BACKWIRE_STORE_PREFIX: '', BACKWIRE_MEMBERSHIP: '' } as const;

/** Tells rank 0 that it need not serve the store itself. */
export const HOSTED = { BACKWIRE_STORE_HOSTED: '1' } as const;

/** Says where a group is, here and to `backwire inspect`. Returns how to take the latter back. */
export function announce(
  { onGroup, program }: Pick<LaunchSettings, 'onGroup' | 'program'>,
  address: string,
  secretFile?: string,
): () => void {
  onGroup?.(address);
  return announceGroup({ address, program }, secretFile);
}

/** @throws LaunchError when the port is taken. */
export async function openLocalGroup(options: LaunchSettings, restarts: number): Promise<LocalGroup> {
  const { masterAddr: host, masterPort, localAddr, secret, freshSecret, processes } = options;
  const server = await serve(host, masterPort, options);
  const kept = secret !== undefined && freshSecret ? keepSecret(secret, server.port) : NOT_KEPT;
  const forget = announce(options, addressOf(server), kept.path);
  return {
    host,
    port: server.port,
    env: { ...HOSTED, ...NOT_ANOTHER, ...(localAddr === undefined ? {} : { BACKWIRE_BIND: localAddr }) },
    nodeRank: 0,
    nodes: 1,
    firstRank: 0,
    worldSize: processes,
    round: restarts,
    restarts,
    over: undefined,
    exited: (exit) => server.set(exitKey(exit), exitNotice(exit)),
    close: async () => {
      forget();
      kept.forget();
      await server.close();
    },
  };
}

/**
 * Serves a store, also to browsers when BACKWIRE_STORE_WS says so.
 * @throws LaunchError naming the port; UsageError when BACKWIRE_STORE_WS is none.
 */
export async function serve(host: string, port: number, { secret, say }: LaunchSettings): Promise<StoreServer> {
  const webSocket = door();
  try {
    const server = await serveStore({ host, port, webSocket, ...(secret === undefined ? {} : { secret }) });
    const { webSocketEndpoint } = server;
    if (webSocketEndpoint !== undefined) say(`backwire: browsers reach the store at ${webSocketEndpoint}`);
    return server;
  } catch (error) {
    throw portError(host, port, error);
  }
}

function door(): ReturnType<typeof doorForBrowsers> {
  try {
    return doorForBrowsers();
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

export function exitKey({ rank }: ExitNotice): string {
  return `launcher/exits/${rank}`;
}

export function exitNotice({ rank, pid, code, signal }: ExitNotice): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ rank, pid, code, signal }));
}
