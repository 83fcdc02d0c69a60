/** @file The store in which launchers meet: served by one of them, or a server of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '@backwire/rpc';
import { openStore, resolveSecurity, type StoreServer } from '@backwire/rpc/internal';
import { codeOf, LaunchError, messageOf } from './errors.ts';
import { serve } from './group-store.ts';
import type { LaunchSettings } from './settings.ts';

/** Between two looks for the name of a host that may still be made known. */
const RETRY_MS = 500;

/** @throws LaunchError when the store cannot be reached in time, or its port is taken. */
export async function openRendezvousStore(
  settings: LaunchSettings,
): Promise<{ store: Store; server: StoreServer | undefined }> {
  const { secret, freshSecret, masterAddr: bind, signal } = settings;
  const deadline = performance.now() + settings.joinTimeoutMs;
  const server = await serveIfMine(settings, deadline);
  try {
    const left = Math.ceil(Math.max(deadline - performance.now(), 1));
    // Rank 1: whoever serves has done so.
    const { store } = await openStore(storeAddress(settings, server?.port), {
      rank: 1,
      timeoutMs: left,
      signal,
      // A secret that is not in the environment has to be handed over.
      security: freshSecret && secret !== undefined ? resolveSecurity({ mode: 'hmac', secret }, { bind }) : undefined,
    });
    return { store, server };
  } catch (error) {
    await server?.close();
    const where = `${bind}:${server?.port ?? settings.masterPort}`;
    throw new LaunchError(`the group at ${where} cannot be joined: ${messageOf(error)}`, { cause: error });
  }
}

/** What workers open. */
export function storeAddress(settings: LaunchSettings, port = settings.masterPort): string {
  const { backend, masterAddr, rendezvousStore } = settings;
  if (rendezvousStore !== undefined) return rendezvousStore;
  const host = masterAddr.includes(':') ? `[${masterAddr}]` : masterAddr;
  return `${backend === 'hosted' ? 'tcp' : backend}://${host}:${port}`;
}

async function serveIfMine(settings: LaunchSettings, deadline: number): Promise<StoreServer | undefined> {
  const { backend, masterAddr, masterPort, nodeRank, freshSecret, signal } = settings;
  if (backend !== 'hosted' || (nodeRank ?? 0) > 0) return undefined;
  for (;;) {
    try {
      return await serve(masterAddr, masterPort, settings);
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
