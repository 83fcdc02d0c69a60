/** @file The store of a group, served by the launcher so that any worker may die, rank 0 included. */
import { serveStore, type StoreServer } from '@backwire/rpc/internal';
import { portError } from './port.ts';
import type { WorkerEnd } from './worker-process.ts';

export interface GroupStore {
  readonly host: string;
  readonly port: number;
  /** Variables that tell the workers about it. */
  readonly env: Readonly<Record<string, string>>;
  /** Lets the others know at once that a worker is gone. */
  exited(exit: Pick<WorkerEnd, 'rank' | 'pid' | 'code' | 'signal'>): void;
  close(): Promise<void>;
}

export interface GroupStoreOptions {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly nodeRank: number;
  readonly secret: string | undefined;
}

/** Tells rank 0 that it need not serve the store itself. */
const HOSTED = { BACKWIRE_STORE_HOSTED: '1' };

/**
 * The store of one attempt, served on the first host of the group; the others only know where it is.
 * @throws LaunchError when its port is taken.
 */
export async function openGroupStore({
  masterAddr: host,
  masterPort,
  nodeRank,
  secret,
}: GroupStoreOptions): Promise<GroupStore> {
  if (nodeRank !== 0)
    return { host, port: masterPort, env: HOSTED, exited: () => undefined, close: () => Promise.resolve() };
  let server: StoreServer;
  try {
    server = await serveStore({ host, port: masterPort, ...(secret === undefined ? {} : { secret }) });
  } catch (error) {
    throw portError(host, masterPort, error);
  }
  return {
    host,
    port: server.port,
    env: HOSTED,
    exited: ({ rank, pid, code, signal }) => {
      server.set(`launcher/exits/${rank}`, new TextEncoder().encode(JSON.stringify({ rank, pid, code, signal })));
    },
    close: () => server.close(),
  };
}
