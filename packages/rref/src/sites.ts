/** @file The shell's view of who is where: workers by site and sites by worker. */
import { RpcError, WorkerInfo, type To } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { siteOf, workerOf, type Site } from './protocol/ids.ts';

export class Sites {
  readonly self: Site;
  private readonly host: ExtensionHost;
  /** Everybody ever seen, so that errors can name the dead; one entry a worker and life. */
  private readonly known = new Map<Site, WorkerInfo>();

  private present: ReadonlySet<Site> = new Set();
  /** How the latest life of each worker ended that is no member any more, by name. */
  private readonly ended = new Map<string, { readonly worker: WorkerInfo; readonly how: 'died' | 'left' }>();

  constructor(host: ExtensionHost) {
    this.host = host;
    this.self = siteOf(host.self.id, host.incarnation);
    this.known.set(this.self, host.self);
  }

  /** The site of a worker in its present life. */
  of(worker: WorkerInfo): Site {
    if (worker.id === this.host.self.id) return this.self;
    const site = siteOf(worker.id, this.host.incarnationOf(worker));
    if (!this.known.has(site)) this.known.set(site, worker);
    return site;
  }

  seen(worker: WorkerInfo, incarnation: number): Site {
    const site = siteOf(worker.id, incarnation);
    this.known.set(site, worker);
    return site;
  }

  /** A life of a worker is over. */
  gone(worker: WorkerInfo, how: 'died' | 'left'): void {
    this.ended.set(worker.name, { worker, how });
  }

  /** @throws RpcError 'peer-died' or 'unavailable' for a worker that was a member and is none; 'not-found' for one that never was. */
  resolve(to: To): WorkerInfo {
    try {
      return this.host.resolve(to);
    } catch (error) {
      const found = this.formerly(to);
      if (found === undefined) throw error;
      const { worker, how } = found;
      const text = how === 'died' ? `worker '${worker.name}' died` : `worker '${worker.name}' has left the group`;
      const code = how === 'died' ? 'peer-died' : 'unavailable';
      throw new RpcError(code, text, { executed: 'no', peer: worker, cause: error });
    }
  }

  private formerly(to: To): { readonly worker: WorkerInfo; readonly how: 'died' | 'left' } | undefined {
    if (typeof to !== 'number') return this.ended.get(typeof to === 'string' ? to : to.name);
    return [...this.ended.values()].find(({ worker }) => worker.id === to);
  }

  /** The group as of the latest view. */
  setMembers(sites: Iterable<Site>): void {
    this.present = new Set(sites);
  }

  /** The worker of a site, for messages and for errors. One that was never seen is named by its id. */
  worker(site: Site): WorkerInfo {
    return this.known.get(site) ?? this.member(site) ?? new WorkerInfo(`worker${workerOf(site)}`, workerOf(site));
  }

  /** Whether messages get to a site, as far as is known here. */
  reachable(site: Site): boolean {
    const worker = this.member(site);
    return worker !== undefined && (site === this.self || this.host.isReachable(worker));
  }

  allReachable(): boolean {
    return [...this.present].every((site) => this.reachable(site));
  }

  /** The worker of a site, if that life is part of the group now. */
  member(site: Site): WorkerInfo | undefined {
    if (this.present.has(site)) return this.known.get(site);
    if (site === this.self) return this.host.self;
    const id = workerOf(site);
    const peer = this.host.peers().find((candidate) => candidate.id === id);
    return peer !== undefined && this.of(peer) === site ? peer : undefined;
  }
}
