/** @file The members of the group as this worker knows them: workers by the keys of members, and keys by worker. */
import { WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { MAX_FORMER_LIVES } from './limits.ts';
import { memberKey, workerOf, type MemberKey } from './protocol/ids.ts';

export class MemberDirectory {
  readonly self: MemberKey;
  private readonly host: ExtensionHost;
  /** The group, and the latest of those that were in it, so that errors can name the dead; one entry a worker and life, as they were seen last. */
  private readonly known = new Map<MemberKey, WorkerInfo>();
  private present: ReadonlySet<MemberKey> = new Set();

  constructor(host: ExtensionHost) {
    this.host = host;
    this.self = memberKey(host.self.id, host.incarnation);
    this.known.set(this.self, host.self);
  }

  /** The key of a worker in its present life. */
  of(worker: WorkerInfo): MemberKey {
    if (worker.id === this.host.self.id) return this.self;
    const member = memberKey(worker.id, this.host.incarnationOf(worker));
    if (!this.known.has(member)) this.known.set(member, worker);
    return member;
  }

  /** The key of the last life that was seen of a worker, which may be over. */
  last(worker: WorkerInfo): MemberKey {
    const lives = [...this.known.keys()].filter((member) => workerOf(member) === worker.id);
    return lives.at(-1) ?? memberKey(worker.id, 0);
  }

  seen(worker: WorkerInfo, incarnation: number): MemberKey {
    const member = memberKey(worker.id, incarnation);
    this.known.delete(member);
    this.known.set(member, worker);
    return member;
  }

  /** The group as of the latest view. Returns those of the view before that are not in it. */
  viewChanged(members: Iterable<MemberKey>): MemberKey[] {
    const before = this.present;
    const present = (this.present = new Set(members));
    this.forgetOldest();
    return [...before].filter((member) => !present.has(member));
  }

  /** Those of a view have just been seen: the oldest are in none any more. */
  private forgetOldest(): void {
    let over = this.known.size - this.present.size - MAX_FORMER_LIVES;
    for (const member of this.known.keys()) {
      if (over <= 0) return;
      if (this.present.has(member) || member === this.self) continue;
      this.known.delete(member);
      over--;
    }
  }

  /** The worker of a member, for messages and for errors. One that was never seen is named by its id. */
  worker(member: MemberKey): WorkerInfo {
    return (
      this.known.get(member) ?? this.member(member) ?? new WorkerInfo(`worker${workerOf(member)}`, workerOf(member))
    );
  }

  /** Whether messages get to a member, as far as is known here. */
  reachable(member: MemberKey): boolean {
    const worker = this.member(member);
    return worker !== undefined && (member === this.self || this.host.isReachable(worker));
  }

  /** The worker of a member, if that life is part of the group now. */
  member(member: MemberKey): WorkerInfo | undefined {
    if (this.present.has(member)) return this.known.get(member);
    if (member === this.self) return this.host.self;
    const id = workerOf(member);
    const peer = this.host.peers().find((candidate) => candidate.id === id);
    return peer !== undefined && this.of(peer) === member ? peer : undefined;
  }
}
