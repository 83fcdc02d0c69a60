/** @file Finds steps of replicas by gradients that only this worker has. */
import type { Tensor } from '../tensor.ts';

const watches = new WeakMap<Tensor, CombinedGradients>();
/** Those that passes of any replica have made: a parameter may be in several. */
const combined = new WeakSet<Tensor>();
let hasWatches = false;

/** Whether the gradients of a replica are those of a pass. */
export class CombinedGradients {
  /** Whether the model has run for a pass that has not been made. */
  private isAhead = false;
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

  /** A pass is made, or given up. */
  passed(): void {
    this.isAhead = false;
  }

  /** The gradients of these are those that all workers have. */
  gave(parameters: readonly Tensor[]): void {
    for (const { meta } of parameters) if (meta?.grad) combined.add(meta.grad);
  }

  lacks(gradient: Tensor): boolean {
    return this.isAhead && !combined.has(gradient) && this.isShared();
  }
}

/**
 * The gradients that `backward` has left in the parameters, null where there is none.
 * @throws Error for one of a replica that its worker alone has: the replicas would part for good, and nothing else would say so. Gradients
 *   that the program has looked at or assigned are its own affair.
 */
export function gradientsIn(parameters: readonly Tensor[]): readonly (Tensor | null)[] {
  return parameters.map((parameter, i) => {
    const { grad: gradient = null, gradSeen = false } = parameter.meta ?? {};
    if (hasWatches && gradient !== null && !gradSeen && watches.get(parameter)?.lacks(gradient) === true)
      throw new Error(
        `step() by gradients of DistributedDataParallel that this worker alone has (parameter ${i}): make the pass by ` +
          '`await model.backward(loss)`, which combines them; to step this worker alone run `model.module.forward`, and what is no ' +
          'pass in noGrad()',
      );
    return gradient;
  });
}
