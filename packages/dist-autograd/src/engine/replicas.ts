/** @file Replicated modules in a context: which of them take part in a pass, so that their gradients are their group's, and who is told when it fails. */
import type { RunningReplica, Turn } from '@backwire/tensor/internal';
import { MAX_UNCONFIRMED } from '../limits.ts';
import { sameMember, samePass, type PassId } from '../protocol/ids.ts';

/** What is needed of a `nn.DistributedDataParallel`. */
export type Replica = RunningReplica;

/** What is needed of the local part of a pass. */
interface Captured {
  reaches(replica: Replica): boolean;
  combine(replica: Replica): Promise<void>;
}

interface Entry {
  readonly turn: Turn;
  /** Whether it ran since the last pass. */
  fresh: boolean;
  /** Whether the pass that is going on combines it, or has. */
  due: boolean;
}

/** What one pass combined. */
interface Combined {
  readonly pass: PassId;
  readonly replicas: readonly Replica[];
}

export class Replicas {
  private readonly ran = new Map<Replica, Entry>();
  /** Of passes that are done here and may yet fail elsewhere. */
  private combined: Combined[] = [];

  /** Whether none ever ran here. */
  get empty(): boolean {
    return this.ran.size === 0;
  }

  /** A replica runs forward. */
  note(replica: Replica, turn: Turn): void {
    const entry = this.ran.get(replica);
    if (entry === undefined) this.ran.set(replica, { turn, fresh: true, due: false });
    else entry.fresh = true;
  }

  /**
   * The pass has run here. Combines the gradients of every replica that it reached, or that ran since the last pass: the other workers of
   * its group wait for this one. Undefined when there is none.
   */
  combine(pass: Captured): Promise<void> | undefined {
    const due = [...this.ran].filter(([replica, { fresh }]) => fresh || pass.reaches(replica));
    if (due.length === 0) return undefined;
    for (const [, entry] of due) Object.assign(entry, { fresh: false, due: true });
    due.sort(([, { turn: a }], [, { turn: b }]) => a.place - b.place);
    const lines = new Map<string, Promise<void>>();
    for (const [replica, { turn }] of due) {
      const before = lines.get(turn.line);
      lines.set(turn.line, before === undefined ? pass.combine(replica) : before.then(() => pass.combine(replica)));
    }
    return Promise.all(lines.values()).then(() => undefined);
  }

  /** The pass that was going on is done here. */
  commit(pass: PassId): void {
    const due = [...this.ran].filter(([, entry]) => entry.due);
    if (due.length === 0) return;
    for (const [, entry] of due) entry.due = false;
    this.combined.push({ pass, replicas: due.map(([replica]) => replica) });
    if (this.combined.length > MAX_UNCONFIRMED) this.combined.shift();
  }

  /** A pass that was done here failed elsewhere: its gradients are taken back, while other members may have stepped with theirs. */
  undo(pass: PassId, cause: unknown): void {
    const undone = this.combined.filter((known) => samePass(known.pass, pass));
    if (undone.length === 0) return;
    this.combined = this.combined.filter((known) => !undone.includes(known));
    for (const { replicas } of undone) for (const replica of replicas) replica.fail(cause);
  }

  /** An origin began its next pass: those before have succeeded, but for `failed`. */
  confirm(pass: PassId, failed: readonly number[]): void {
    for (const known of this.combined.filter((one) => sameMember(one.pass, pass) && one.pass.n < pass.n))
      if (failed.includes(known.pass.n)) this.undo(known.pass, new Error('an earlier backward pass failed elsewhere'));
      else this.combined = this.combined.filter((one) => one !== known);
  }

  /**
   * A pass failed here. The groups of all that it would have combined go on without this worker's gradients, or have: of those that are due,
   * those that ran since the last pass, and those that it `mayReach`.
   */
  fail(cause: unknown, mayReach: (replica: Replica) => boolean = () => true): void {
    for (const [replica, entry] of this.ran) {
      const struck = entry.fresh || entry.due || mayReach(replica);
      entry.due = false;
      if (struck) replica.fail(cause);
    }
  }

  clear(): void {
    this.ran.clear();
    this.combined = [];
  }
}
