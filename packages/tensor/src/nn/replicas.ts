/** @file Who is told when a replicated module runs: gradients that are collected elsewhere have to be combined there. */
import type { Parameter, Tensor } from '../tensor.ts';

/** What a listener may ask of a module that runs. */
export interface RunningReplica {
  parameters(): Parameter[];
  reduceGradients(
    gradients: ReadonlyMap<Tensor, Tensor>,
    options?: { signal?: AbortSignal; tags?: Readonly<Record<string, string | number>> },
  ): Promise<Map<Parameter, Tensor>>;
  /** A pass that the group would have met in failed here: this worker may be out of step with the others from now on. */
  fail(cause: unknown): void;
}

/** Called synchronously before each forward of a `DistributedDataParallel`; distributed autograd listens. */
export const replicas: { onForward: ((replica: RunningReplica) => void) | undefined } = { onForward: undefined };

/**
 * All-reduces whose answers are their caller's alone, so that a replica may free them, and which have done with what they were given when
 * they answer. The functions and not their groups: a wrapper around a group may have one of its own.
 */
export const ownedReduces = new WeakSet<object>();
