/** @file Who is told when a replicated module runs: gradients that are collected elsewhere have to be combined there. */
import type { Parameter, Tensor } from '../tensor.ts';

/** What a value of a pass belongs to, by kind. */
export type Tags = Readonly<Record<string, string | number>>;

/** What a listener may ask of a module that runs. */
export interface RunningReplica {
  parameters(): Parameter[];
  reduceGradients(
    gradients: ReadonlyMap<Tensor, Tensor>,
    options?: { signal?: AbortSignal; tags?: Tags },
  ): Promise<Map<Parameter, Tensor>>;
  /** A pass that the group would have met in failed here: this worker may be out of step with the others from now on. */
  fail(cause: unknown): void;
}

/** Called synchronously before each forward of a `DistributedDataParallel`; distributed autograd listens. */
export const replicas: { onForward: ((replica: RunningReplica) => void) | undefined } = { onForward: undefined };

/** A replica's place among those over the same workers. */
export interface ReplicaSeat {
  /** Which of them it is: members make theirs in the same order. */
  readonly number: number;
  /** This worker makes no further pass with it: what others have brought or bring to one is answered with an error that says why. */
  fail(cause: unknown): void;
}

/** By which a group gives seats: a property, so that a wrapper which inherits from a group gives them, too. */
export const takeSeat: unique symbol = Symbol.for('backwire.takeSeat');

export interface SeatingGroup {
  readonly allReduce: object;
  readonly [takeSeat]?: () => ReplicaSeat;
}

const replicasOver = new WeakMap<object, number>();

/** A seat in a group, or, where it gives none, one that is counted by the group and that nobody else hears of. */
export function seatIn(group: SeatingGroup): ReplicaSeat {
  const given = group[takeSeat]?.();
  if (given !== undefined) return given;
  const number = (replicasOver.get(group) ?? 0) + 1;
  replicasOver.set(group, number);
  return { number, fail: () => undefined };
}

/** The mean over a group, for a data-parallel pass; the caller owns the answer, and nobody has the tensor any more when it comes. */
export type PartReduce = (
  tensor: Tensor,
  options: {
    readonly tags: Tags;
    readonly signal: AbortSignal;
    /** Called when it has failed, before anything that was brought is taken back. */
    readonly failed?: (error: unknown) => void;
  },
) => Promise<Tensor>;

/**
 * What a pass may call in place of a group's `allReduce`: its tags name every call differently, and none follows one that failed. By the
 * functions and not by their groups: a wrapper around a group may have one of its own, which is called then.
 */
export const partReduces = new WeakMap<object, PartReduce>();
