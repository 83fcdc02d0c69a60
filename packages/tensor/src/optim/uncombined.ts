/** @file Finds steps of replicas by gradients that only this worker has. */
import type { Tensor } from '../tensor.ts';

const watches = new WeakMap<Tensor, CombinedGradients>();
let hasWatches = false;

/** Which gradients of a replica its passes have combined. */
export class CombinedGradients {
  /** Whether the model has run for a pass that has not been made. */
  private isAhead = false;
  private readonly combined = new WeakSet<Tensor>();
  private readonly isShared: () => boolean;

  /** `isShared`: whether other workers have the same parameters. */
  constructor(parameters: readonly Tensor[], isShared: () => boolean) {
    this.isShared = isShared;
    for (const parameter of parameters) watches.set(parameter, this);
    hasWatches = true;
  }

  /** The model runs, with gradients. */
  ran(): void {
    this.isAhead = true;
  }

  /** A pass is made: these are the gradients that all have. */
  passed(parameters: readonly Tensor[] = []): void {
    this.isAhead = false;
    for (const { meta } of parameters) if (meta?.grad) this.combined.add(meta.grad);
  }

  lacks(gradient: Tensor): boolean {
    return this.isAhead && !this.combined.has(gradient) && this.isShared();
  }
}

/**
 * The gradients that `backward` has left in the parameters, null where there is none.
 * @throws Error for one of a replica that its worker alone has: the replicas would part for good, and nothing else would say so.
 */
export function gradientsIn(parameters: readonly Tensor[]): readonly (Tensor | null)[] {
  return parameters.map((parameter, i) => {
    const gradient = parameter.meta?.grad ?? null;
    if (hasWatches && gradient !== null && watches.get(parameter)?.lacks(gradient) === true)
      throw new Error(
        `step() by gradients of DistributedDataParallel that this worker alone has (parameter ${i}): make the pass by ` +
          '`await model.backward(loss)`, which combines them; to step this worker alone run `model.module.forward`',
      );
    return gradient;
  });
}
