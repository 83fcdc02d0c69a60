/** @file How gradients are summed, and how they end up in a leaf. */
import { ambient } from '../../ambient.ts';
import { sparseFromParts } from '../../creation.ts';
import { addGradients } from '../../ops/gradients.ts';
import { keep, sweep, unswept } from '../../scope.ts';
import { shareHandle } from '../record.ts';
import type { AutogradMeta, SparseParts, Tensor } from '../../tensor.ts';

/**
 * Adds `grad` into the leaf's `.grad` out of place, so that a gradient somebody holds does not change. The leaf's gradient belongs to
 * the program: no scope frees it.
 */
export function accumulateGrad(meta: AutogradMeta, grad: Tensor): void {
  const { grad: before } = meta;
  replaceGrad(
    meta,
    unswept(() => (before === null ? own(grad) : addGradients(before, grad))),
  );
}

/** Puts a gradient of the library's own into a leaf, of its shape and dtype. The one before is freed unless the program has seen it. */
export function replaceGrad(meta: AutogradMeta, grad: Tensor): void {
  const { grad: before, gradSeen } = meta;
  meta.grad = keep(grad);
  if (!gradSeen) before?.release();
  meta.gradSeen = false;
}

/** Takes the gradient from a leaf; it is freed at once unless the program has asked for it and may hold it. */
export function clearGrad({ meta }: Tensor): void {
  if (meta === undefined) return;
  if (!meta.gradSeen) meta.grad?.release();
  meta.grad = null;
}

/** A gradient nothing else aliases: the one given when only the engine holds it, else a copy. */
function own(grad: Tensor): Tensor {
  // A handle that is not a temporary is the program's own: what it gave to backward, or what a hook or function of its own returned.
  // The values of a sparse one have a handle of their own.
  const shared = !grad.temporary || grad.storage.refs > (grad.sparse === undefined ? 1 : 2);
  if (ambient().gradMode) return shared ? grad.clone() : shareHandle(grad);
  if (shared || !(grad.sparse?.values ?? grad).isContiguous) return grad.detach().clone();
  if (grad.sparse !== undefined) return withOwnIndices(grad, grad.sparse);
  const handle = shareHandle(grad);
  handle.meta = undefined;
  return handle;
}

/** The values themselves, but a copy of the indices, which may be somebody's: numbers of rows are few beside the rows. */
function withOwnIndices(grad: Tensor, { indices, values, coalesced }: SparseParts): Tensor {
  return sweep(() => sparseFromParts({ indices: indices.detach().clone(), values, coalesced, shape: grad.shape }));
}
