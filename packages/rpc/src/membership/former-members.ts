/** @file Those that were members: how the latest life of each ended, for whoever still asks for them. */
import { MAX_FORMER_MEMBERS } from '../base/limits.ts';
import type { To, WorkerInfo } from '../base/worker-info.ts';

export type EndCode = 'peer-died' | 'unavailable';

/** One that was a member, and how that ended. */
interface Former {
  readonly worker: WorkerInfo;
  readonly code: EndCode;
}

export class FormerMembers {
  /** By name; the oldest first. */
  private readonly former = new Map<string, Former>();

  /** @param to a name, an id or a record. */
  find(to: To): Former | undefined {
    if (typeof to === 'string') return this.former.get(to);
    if (typeof to === 'number') return [...this.former.values()].find(({ worker }) => worker.id === to);
    const former = this.former.get(to.name);
    return former?.worker.id === to.id ? former : undefined;
  }

  remember(worker: WorkerInfo, code: EndCode): void {
    this.forget(worker.name);
    this.former.set(worker.name, { worker, code });
    if (this.former.size <= MAX_FORMER_MEMBERS) return;
    const [oldest] = this.former.keys();
    this.forget(oldest as string);
  }

  /** One of that name is a member again. */
  forget(name: string): void {
    this.former.delete(name);
  }
}

/** What became of a worker, as a clause. */
export function endOf(name: string, code: EndCode): string {
  return code === 'peer-died' ? `worker '${name}' died` : `worker '${name}' has left the group`;
}
