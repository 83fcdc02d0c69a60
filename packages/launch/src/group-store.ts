/** @file The store of a group, served by a launcher so that any worker may die, rank 0 included. */
import { serveStore, type StoreServer } from '@backwire/rpc/internal';
import { joinHosts } from './host-group.ts';
import { portError } from './port.ts';
import type { WorkerEnd } from './worker-process.ts';

/** What tells others that a worker is gone. */
export type ExitNotice = Pick<WorkerEnd, 'rank' | 'pid' | 'code' | 'signal'>;

/** What another host said when it failed. */
export interface ElsewhereFailure {
  /** For people. */
  readonly report: string;
  /** It was told to stop: the group does not start again. */
  readonly final: boolean;
}

export interface GroupStore {
  readonly host: string;
  readonly port: number;
  /** This host's number. */
  readonly nodeRank: number;
  /** Aborts when another host of the group has failed; the reason is an `ElsewhereFailure`. */
  readonly elsewhere: AbortSignal | undefined;
  /** Lets the others know at once that a worker is gone. */
  exited(exit: ExitNotice): void;
  /** Tells the other hosts that this one failed. */
  fail(failure: ElsewhereFailure): Promise<void>;
  /** The workers here have finished: waits until those of the other hosts have too, or `elsewhere` aborts. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

export interface GroupStoreOptions {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly nodes: number;
  /** Undefined = in the order the hosts come. */
  readonly nodeRank: number | undefined;
  readonly runId: string;
  readonly secret: string | undefined;
  /** How long to wait for the other hosts, in milliseconds. */
  readonly joinTimeoutMs: number;
}

/** Tells rank 0 that it need not serve the store itself. */
export const HOSTED = { BACKWIRE_STORE_HOSTED: '1' } as const;

/**
 * The store of attempt `restarts` of a group.
 * @throws LaunchError when its port is taken, or the other hosts do not come.
 */
export async function openGroupStore(options: GroupStoreOptions, restarts: number): Promise<GroupStore> {
  if (options.nodes > 1) return joinHosts(options, restarts);
  const { masterAddr: host, masterPort, secret } = options;
  const server = await serve(host, masterPort, secret);
  return {
    host,
    port: server.port,
    nodeRank: 0,
    elsewhere: undefined,
    exited: (exit) => server.set(exitKey(exit), exitNotice(exit)),
    fail: () => Promise.resolve(),
    finish: () => Promise.resolve(),
    close: () => server.close(),
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
