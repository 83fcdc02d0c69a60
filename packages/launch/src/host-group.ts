/** @file The launchers of a group over several hosts: they meet in its store, and when one fails all of them stop. */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '@backwire/rpc';
import { openStore, type StoreServer } from '@backwire/rpc/internal';
import { codeOf, LaunchError, messageOf } from './errors.ts';
import {
  type ElsewhereFailure,
  exitKey,
  exitNotice,
  serve,
  type GroupStore,
  type GroupStoreOptions,
} from './group-store.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/** Between two looks at a store that still belongs to the attempt before. */
const RETRY_MS = 100;
/** Between two questions whether another host has failed. */
const POLL_MS = 250;
/** How long the host with the store keeps it for the others to hear the last news. */
const FAREWELL_MS = 2_000;

/**
 * Meets the other hosts. The store is on host 0, or, without numbers, on whichever host can bind the endpoint; the others find it there.
 * @throws LaunchError naming the hosts that did not come, or the port.
 */
export async function joinHosts(options: GroupStoreOptions, restarts: number): Promise<GroupStore> {
  const deadline = performance.now() + options.joinTimeoutMs;
  const server = await serveIfMine(options);
  server?.set('launcher/attempt', encoder.encode(String(restarts)));
  let store: Store | undefined;
  try {
    store = await connect(options, restarts, deadline);
    const nodeRank = await takePlace(store, options, deadline);
    return new HostGroup(options, nodeRank, store, server);
  } catch (error) {
    await store?.close();
    await server?.close();
    if (error instanceof LaunchError) throw error;
    throw new LaunchError(
      `the group at ${options.masterAddr}:${options.masterPort} cannot be joined: ${messageOf(error)}`,
      { cause: error },
    );
  }
}

async function serveIfMine({
  masterAddr,
  masterPort,
  nodeRank,
  secret,
}: GroupStoreOptions): Promise<StoreServer | undefined> {
  if (nodeRank !== undefined) return nodeRank === 0 ? serve(masterAddr, masterPort, secret) : undefined;
  try {
    return await serve(masterAddr, masterPort, secret);
  } catch (error) {
    // Another launcher of the group is there already, or the address is another host's.
    const code = codeOf(error instanceof Error ? error.cause : undefined);
    if (code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL') return undefined;
    throw error;
  }
}

/** Connects to the store of this attempt; the one before may still be closing on the same port. */
async function connect(options: GroupStoreOptions, restarts: number, deadline: number): Promise<Store> {
  const endpoint = `tcp://${options.masterAddr.includes(':') ? `[${options.masterAddr}]` : options.masterAddr}:${options.masterPort}`;
  for (;;) {
    // Rank 1: whoever serves has done so.
    const { store } = await openStore(endpoint, { rank: 1, timeoutMs: Math.max(deadline - performance.now(), 1) });
    const attempt = await store.get('launcher/attempt').catch(() => undefined);
    if (attempt !== undefined && decoder.decode(attempt) === String(restarts)) return store;
    await store.close();
    if (performance.now() > deadline) throw new LaunchError(`the store at ${endpoint} belongs to another attempt`);
    await sleep(RETRY_MS);
  }
}

/** Takes this host's number and waits until every number is taken. */
async function takePlace(store: Store, options: GroupStoreOptions, deadline: number): Promise<number> {
  const { nodes, runId, joinTimeoutMs } = options;
  const nodeRank = options.nodeRank ?? Number(await store.add(`launcher/${runId}/arrivals`, 1n)) - 1;
  if (nodeRank >= nodes) throw new LaunchError(`the group '${runId}' has its ${nodes} hosts already`);
  const claim = encoder.encode(`${hostname()} ${process.pid}`);
  const { ok, current } = await store.compareAndSet(hostKey(runId, nodeRank), null, claim);
  if (!ok) throw new LaunchError(`host number ${nodeRank} is taken by ${decoder.decode(current ?? new Uint8Array())}`);
  const all = Array.from({ length: nodes }, (_, n) => hostKey(runId, n));
  try {
    await store.wait(all, { timeoutMs: Math.max(deadline - performance.now(), 1) });
  } catch (error) {
    const here = await store.list(`launcher/${runId}/hosts/`);
    const missing = all.flatMap((key, n) => (here.has(key) ? [] : [n]));
    throw new LaunchError(`hosts ${missing.join(', ')} of ${nodes} did not come in ${joinTimeoutMs / 1000} s`, {
      cause: error,
    });
  }
  return nodeRank;
}

function hostKey(runId: string, nodeRank: number): string {
  return `launcher/${runId}/hosts/${nodeRank}`;
}

class HostGroup implements GroupStore {
  readonly host: string;
  readonly port: number;
  readonly nodeRank: number;
  private readonly failed = new AbortController();
  private readonly over = new AbortController();
  private readonly store: Store;
  private readonly server: StoreServer | undefined;
  private readonly options: GroupStoreOptions;

  constructor(options: GroupStoreOptions, nodeRank: number, store: Store, server: StoreServer | undefined) {
    this.host = options.masterAddr;
    this.port = options.masterPort;
    this.options = options;
    this.nodeRank = nodeRank;
    this.store = store;
    this.server = server;
    void this.listen();
  }

  get elsewhere(): AbortSignal {
    return this.failed.signal;
  }

  exited(exit: Parameters<GroupStore['exited']>[0]): void {
    // Only a hint for the others: without it they notice the death themselves.
    this.store.set(exitKey(exit), exitNotice(exit)).catch(() => undefined);
  }

  async fail(failure: ElsewhereFailure): Promise<void> {
    await this.store
      .compareAndSet(this.failureKey, null, encoder.encode(JSON.stringify(failure)))
      .catch(() => undefined);
  }

  async finish(): Promise<void> {
    const { runId, nodes } = this.options;
    const ended = (n: number): string => `launcher/${runId}/ended/${n}`;
    await this.store.set(ended(this.nodeRank), encoder.encode('1')).catch(() => undefined);
    const all = Array.from({ length: nodes }, (_, n) => ended(n));
    // They may take as long as they like; a failure of one ends the wait.
    await this.store.wait(all, { timeoutMs: 0, signal: this.failed.signal }).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.over.abort();
    await this.store.close();
    await this.server?.close({ lingerMs: FAREWELL_MS });
  }

  private get failureKey(): string {
    return `launcher/${this.options.runId}/failed`;
  }

  /** Asks for another host's failure until this one is done; a store that does not answer is one. */
  private async listen(): Promise<void> {
    const { signal } = this.over;
    while (!signal.aborted) {
      try {
        const report = await this.store.get(this.failureKey);
        if (report !== undefined) return this.failed.abort(JSON.parse(decoder.decode(report)) as ElsewhereFailure);
        await sleep(POLL_MS, undefined, { signal, ref: false });
      } catch (error) {
        if (!signal.aborted) this.failed.abort(storeGone(error));
        return;
      }
    }
  }
}

function storeGone(error: unknown): ElsewhereFailure {
  return { report: `the group's store is gone: ${messageOf(error)}`, final: true };
}
