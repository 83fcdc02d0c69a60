/** @file The shell's view of who is where: workers by site and sites by worker. */
import { WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { siteOf, workerOf, type Site } from './protocol/ids.ts';

export class Sites {
  readonly self: Site;
  private readonly host: ExtensionHost;
  /** Everybody ever seen, so that errors can name the dead; one entry a worker and life. */
  private readonly known = new Map<Site, WorkerInfo>();

  private present: ReadonlySet<Site> = new Set();

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
