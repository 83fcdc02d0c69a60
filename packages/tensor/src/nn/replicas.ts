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

/**
 * When a replica's passes may run beside those of others. Those of one line make theirs one after the other, in the order in which they were
 * made, which is the same on all members. Those of different lines meet apart: any order between them might have workers wait for each
 * other in a circle.
 */
export interface Turn {
  /** The line of meetings of its group; '' for all of which nobody knows that. */
  readonly line: string;
  /** Which of this worker's it is. */
  readonly place: number;
}

/** Called synchronously before each forward of a `DistributedDataParallel`; distributed autograd listens. */
export const replicas: { onForward: ((replica: RunningReplica, turn: Turn) => void) | undefined } = {
  onForward: undefined,
};

/** The mean over a group, for a data-parallel pass; the caller owns the answer, and nobody has the tensor any more when it comes. */
export type PartReduce = (
  tensor: Tensor,
  options: {
    readonly tags: Tags;
    readonly signal: AbortSignal;
  },
) => Promise<Tensor>;

/**
 * What a pass may call in place of a group's `allReduce`: its tags name every call differently, and none follows one that failed. By the
 * functions and not by their groups: a wrapper around a group may have one of its own, which is called then.
 */
export const partReduces = new WeakMap<object, PartReduce>();

/** That of a group; one of the program's has none. */
export function partReduceOf(group: { readonly allReduce: unknown }): PartReduce | undefined {
  return partReduces.get(group.allReduce as object);
}
