/** @file What the graph knows of views, and which of them may not be changed in place. */
import { AutogradError } from '../errors.ts';
import { currentMeta, newMeta, type AutogradMeta, type Tensor, type ViewInfo, type ViewOrigin } from '../tensor.ts';

/** Notes that `view` shows part of `base`. */
export function noteView(view: Tensor, base: Tensor, origin: ViewOrigin): void {
  const baseMeta = (base.meta ??= newMeta(false));
  const meta = (view.meta ??= newMeta(false));
  const root = baseMeta.view;
  meta.view = {
    base: root?.base ?? baseMeta,
    baseDType: root?.baseDType ?? base.dtype,
    baseShape: root?.baseShape ?? base.shape,
    baseStrides: root?.baseStrides ?? base.strides,
    baseOffset: root?.baseOffset ?? base.offset,
    generation: (root?.base ?? baseMeta).generation,
    version: view.storage.version,
    origin: origin === 'recorded' ? (root?.origin ?? origin) : origin,
  };
}

/** Throws for a view that was not recorded as one, once its base has changed. */
export function refuseStale(t: Tensor, meta: AutogradMeta, view: ViewInfo): void {
  const { base, version } = view;
  const differentiated = meta.node !== undefined || base.node !== undefined || base.requiresGrad;
  if (!differentiated || t.disposed || version === t.storage.version) return;
  throw forbidden(meta, view, 'its base or another view of its base has been');
}

/** As PyTorch says it. */
function forbidden(meta: AutogradMeta, { origin }: ViewInfo, what: string): AutogradError {
  const { node } = meta;
  const made =
    origin === 'noGrad' || node === undefined
      ? `A view was created in no_grad mode and ${what} modified inplace with grad mode enabled.`
      : `Output ${meta.outputIndex} of ${node.name} is a view and ${what} modified inplace.`;
  return new AutogradError(`${made} ${REASONS[origin]}`);
}

const REASONS: Readonly<Record<ViewOrigin, string>> = {
  recorded: '',
  noGrad:
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked).",
  several:
    'This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.',
  custom:
    'This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function.',
};

/**
 * Throws where PyTorch does: leaves and their views may not be changed in place while recording, nor views that were not recorded one by
 * one. `recorded` says whether any operand requires gradients.
 */
export function checkInPlace(t: Tensor, recorded: boolean): void {
  const { meta } = t;
  if (meta === undefined) return;
  const { view } = meta;
  if (view !== undefined) {
    const { base, origin } = view;
    if (origin !== 'recorded' && (recorded || base.node !== undefined || base.requiresGrad))
      throw forbidden(meta, view, 'is being');
    if (!recorded) return;
    currentMeta(t);
    if (base.requiresGrad && base.node === undefined) {
      throw new AutogradError('a view of a leaf Variable that requires grad is being used in an in-place operation.');
    }
  }
  if (meta.requiresGrad && meta.node === undefined) {
    throw new AutogradError('a leaf Variable that requires grad is being used in an in-place operation.');
  }
}
