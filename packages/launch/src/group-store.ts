/** @file What a launcher tells its workers and hears of the others: the group's store, served so that any worker may die. */
import { serveStore, type StoreServer } from '@backwire/rpc/internal';
import { portError } from './port.ts';
import { keepSecret } from './secret-file.ts';
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

/** Tells rank 0 that it need not serve the store itself. */
export const HOSTED = { BACKWIRE_STORE_HOSTED: '1' } as const;

export interface LocalGroupOptions {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly secret: string | undefined;
  /** Nobody else knows it yet. */
  readonly freshSecret: boolean;
  readonly processes: number;
}

/** @throws LaunchError when the port is taken. */
export async function openLocalGroup(options: LocalGroupOptions, restarts: number): Promise<LocalGroup> {
  const { masterAddr: host, masterPort, secret, freshSecret, processes } = options;
  const server = await serve(host, masterPort, secret);
  const forget = secret !== undefined && freshSecret ? keepSecret(secret, server.port) : () => undefined;
  return {
    host,
    port: server.port,
    env: HOSTED,
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
      await server.close();
    },
  };
}

/** @throws LaunchError naming the port. */
export async function serve(host: string, port: number, secret: string | undefined): Promise<StoreServer> {
  try {
    return await serveStore({ host, port, ...(secret === undefined ? {} : { secret }) });
  } catch (error) {
    throw portError(host, port, error);
  }
}

export function exitKey({ rank }: ExitNotice): string {
  return `launcher/exits/${rank}`;
}

export function exitNotice({ rank, pid, code, signal }: ExitNotice): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ rank, pid, code, signal }));
}
