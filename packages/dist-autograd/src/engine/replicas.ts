/** @file Replicated modules in a context: which of them take part in a pass, so that their gradients are their group's. */
import type { RunningReplica } from '@backwire/tensor/internal';

/** What is needed of a `nn.DistributedDataParallel`. */
export type Replica = RunningReplica;

/** What is needed of the local part of a pass. */
interface Captured {
  reaches(replica: Replica): boolean;
  combine(replica: Replica): Promise<void>;
}

export class Replicas {
  /** In the order in which they first ran; those that ran since the last pass are marked. */
  private readonly ran = new Map<Replica, boolean>();

  /** Whether none ever ran here. */
  get empty(): boolean {
    return this.ran.size === 0;
  }

  /** A replica runs forward. */
  note(replica: Replica): void {
    this.ran.set(replica, true);
  }

  /**
   * The pass has run here. Combines the gradients of every replica that it reached, or that ran since the last pass: the other workers of
   * its group wait for this one. Undefined when there is none.
   */
  combine(pass: Captured): Promise<void> | undefined {
    const due = [...this.ran].filter(([replica, fresh]) => fresh || pass.reaches(replica)).map(([replica]) => replica);
    for (const replica of due) this.ran.set(replica, false);
    return due.length === 0 ? undefined : inTurn(due, pass);
  }

  /** The pass failed before its gradients were combined: the others of the group may have gone on. */
  fail(cause: unknown): void {
    for (const [replica, fresh] of this.ran) if (fresh) replica.fail(cause);
  }

  clear(): void {
    this.ran.clear();
  }
}

async function inTurn(due: readonly Replica[], pass: Captured): Promise<void> {
  for (const replica of due) await pass.combine(replica);
}
