/** @file The store in which launchers meet: served by one of them, or a server of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '@backwire/rpc';
import { openStore, resolveSecurity, type StoreServer } from '@backwire/rpc/internal';
import { codeOf, LaunchError, messageOf } from './errors.ts';
import { serve } from './group-store.ts';

export interface StorePlace {
  /** 'hosted': by the launcher that is host 0, or the first that can bind the address. */
  readonly backend: 'hosted' | 'etcd' | 'redis';
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly nodeRank: number | undefined;
  readonly secret: string | undefined;
  /** The secret was made for this group: nobody else knows it, so nobody else serves the store. */
  readonly freshSecret: boolean;
  /** A line for people. */
  readonly say: (text: string) => void;
}

/** Between two looks for the name of a host that may still be made known. */
const RETRY_MS = 500;

/** @throws LaunchError when the store cannot be reached in time, or its port is taken. */
export async function openRendezvousStore(
  place: StorePlace,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<{ store: Store; server: StoreServer | undefined }> {
  const { secret, freshSecret, masterAddr: bind } = place;
  const deadline = performance.now() + timeoutMs;
  const server = await serveIfMine(place, deadline, signal);
  try {
    const left = Math.ceil(Math.max(deadline - performance.now(), 1));
    // Rank 1: whoever serves has done so.
    const { store } = await openStore(storeAddress(place, server?.port), {
      rank: 1,
      timeoutMs: left,
      signal,
      // A secret that is not in the environment has to be handed over.
      security: freshSecret && secret !== undefined ? resolveSecurity({ mode: 'hmac', secret }, { bind }) : undefined,
    });
    return { store, server };
  } catch (error) {
    await server?.close();
    const where = `${place.masterAddr}:${server?.port ?? place.masterPort}`;
    throw new LaunchError(`the group at ${where} cannot be joined: ${messageOf(error)}`, { cause: error });
  }
}

/** What workers open. */
export function storeAddress({ backend, masterAddr, masterPort }: StorePlace, port = masterPort): string {
  const host = masterAddr.includes(':') ? `[${masterAddr}]` : masterAddr;
  return `${backend === 'hosted' ? 'tcp' : backend}://${host}:${port}`;
}

async function serveIfMine(place: StorePlace, deadline: number, signal: AbortSignal): Promise<StoreServer | undefined> {
  const { backend, masterAddr, masterPort, nodeRank, freshSecret } = place;
  if (backend !== 'hosted' || (nodeRank ?? 0) > 0) return undefined;
  for (;;) {
    try {
      return await serve(masterAddr, masterPort, place);
    } catch (error) {
      const code = codeOf(error instanceof Error ? error.cause : undefined);
      // In a cluster the own name may be known a little later than the process starts.
      const unnamed = code === 'ENOTFOUND' || code === 'EAI_AGAIN';
      if (nodeRank === undefined && !freshSecret && (code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL')) {
        // Another launcher of the group is there already, or the address is another host's.
        return undefined;
      }
      if (!unnamed || performance.now() > deadline || signal.aborted) throw error;
      await sleep(RETRY_MS);
    }
  }
}
