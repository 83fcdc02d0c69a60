/** @file The members of a torch group as one of them knows them, and the pipes to them. */
import { RpcError, type To, type WorkerInfo } from '@backwire/rpc';
import type { CallMembers } from '@backwire/rpc/internal';
import { TorchPeer, type PeerOptions } from './links/peer.ts';

/** A member and where it listens. */
export interface Member {
  readonly worker: WorkerInfo;
  /** 'host:port' */
  readonly address: string;
}

export class Members implements CallMembers {
  private readonly self: WorkerInfo;
  private readonly options: PeerOptions;
  private readonly byName = new Map<string, TorchPeer>();
  private readonly byId = new Map<number, TorchPeer>();
  /** Those that were members, by name. */
  private readonly former = new Map<string, WorkerInfo>();

  constructor(self: WorkerInfo, options: PeerOptions) {
    this.self = self;
    this.options = options;
  }

  find(to: To): TorchPeer {
    const found = typeof to === 'number' ? this.byId.get(to) : this.byName.get(typeof to === 'string' ? to : to.name);
    if (found !== undefined && (typeof to !== 'object' || to.id === found.worker.id)) return found;
    const shown = typeof to === 'object' ? to.toString() : typeof to === 'string' ? `'${to}'` : `with id ${to}`;
    const gone =
      typeof to === 'number'
        ? [...this.former.values()].find(({ id }) => id === to)
        : this.former.get(typeof to === 'string' ? to : to.name);
    if (gone !== undefined) throw new RpcError('unavailable', `worker ${shown} has left the group`, { peer: gone });
    throw new RpcError('not-found', `no worker ${shown} is in the group of '${this.self.name}'`);
  }

  has(name: string): boolean {
    return this.byName.has(name);
  }

  /** All but this worker, by id. */
  others(): readonly TorchPeer[] {
    const others = [...this.byName.values()].filter(({ worker }) => worker.id !== this.self.id);
    return others.sort((a, b) => a.worker.id - b.worker.id);
  }

  /** Names of all, this worker's among them, in order. */
  names(): string[] {
    return [...this.byName.keys()].sort();
  }

  /** A member joined, or is known from now on. */
  add({ worker, address }: Member): void {
    const known = this.byName.get(worker.name);
    if (known !== undefined && known.worker.id === worker.id && known.address === address) return;
    if (known !== undefined) this.remove(worker.name);
    const peer = new TorchPeer(worker, address, this.options);
    this.byName.set(worker.name, peer);
    this.byId.set(worker.id, peer);
  }

  /** A member left, or is dead: calls to it fail. Whether it was one. */
  remove(name: string): boolean {
    const known = this.byName.get(name);
    if (known === undefined) return false;
    this.byName.delete(name);
    this.byId.delete(known.worker.id);
    this.former.set(name, known.worker);
    void known.close();
    return true;
  }

  /** Calls that are open to anybody. */
  get open(): number {
    let open = 0;
    for (const peer of this.byName.values()) open += peer.open;
    return open;
  }

  /** Resolves when no connection to anybody is on its way any more, or soon. */
  async close(): Promise<void> {
    await Promise.all([...this.byName.values()].map((peer) => peer.close()));
  }
}
