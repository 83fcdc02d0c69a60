/** @file Views and in-place operations in the graph: a change through a view becomes part of the base's history. */
import { asStrided, asStridedAdd, asStridedScatter } from '../ops/as-strided.ts';
import { AutogradError } from '../errors.ts';
import { isContiguous, type Shape } from '../shape.ts';
import { newMeta, type Tensor } from '../tensor.ts';
import type { AutogradMeta } from './meta.ts';
import { Node, type Edge } from './node.ts';

/** Notes that `view` shows part of `base`. */
export function noteView(view: Tensor, base: Tensor, gradMode: boolean): void {
  const baseMeta = (base.meta ??= newMeta(false));
  const meta = (view.meta ??= newMeta(false));
  const root = baseMeta.view;
  meta.view = {
    base: root?.base ?? baseMeta,
    baseShape: root?.baseShape ?? base.shape,
    baseStrides: root?.baseStrides ?? base.strides,
    baseOffset: root?.baseOffset ?? base.offset,
    generation: (root?.base ?? baseMeta).generation,
    madeInNoGrad: !gradMode,
  };
}

/** Gives a view of a base that was changed in place since the history it has now. */
export function refreshView(t: Tensor, meta: AutogradMeta): void {
  const { view } = meta;
  if (view === undefined || view.generation === view.base.generation) return;
  view.generation = view.base.generation;
  if (view.base.node === undefined) return;
  const edge = { node: view.base.node, inputIndex: view.base.outputIndex };
  const node = new ViewOfBase(edge, view.baseShape, t.shape, t.strides, t.offset - view.baseOffset);
  node.outputs[0] = { shape: t.shape, dtype: t.dtype };
  meta.node = node;
  meta.outputIndex = 0;
}

/** Throws where PyTorch does: leaves and their views, and views made in noGrad, may not be changed in place while recording. */
export function checkInPlace(t: Tensor, gradMode: boolean): void {
  const { meta } = t;
  if (!gradMode || meta === undefined) return;
  if (meta.view !== undefined) {
    refreshView(t, meta);
    const { base, madeInNoGrad } = meta.view;
    if (base.requiresGrad && base.node === undefined) {
      throw new AutogradError('a view of a leaf Variable that requires grad is being used in an in-place operation.');
    }
    if (madeInNoGrad && (base.node !== undefined || t.requiresGrad)) {
      throw new AutogradError(
        'A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden.',
      );
    }
  }
  if (meta.requiresGrad && meta.node === undefined) {
    throw new AutogradError('a leaf Variable that requires grad is being used in an in-place operation.');
  }
}

/** Makes `node`, whose first input is the old value of `t`, the history of `t` after an in-place change. */
export function rebaseHistory(t: Tensor, node: Node): void {
  const meta = (t.meta ??= newMeta(false));
  node.outputs[0] = { shape: t.shape, dtype: t.dtype };
  const { view } = meta;
  if (view === undefined) {
    move(meta, node);
    return;
  }
  if (!isContiguous(view.baseShape, view.baseStrides)) {
    throw new AutogradError(
      'a view of a tensor that is not contiguous was changed in place; make the base contiguous() first',
    );
  }
  const { base } = view;
  const baseEdge = base.node === undefined ? null : { node: base.node, inputIndex: base.outputIndex };
  const copy = new CopySlices(baseEdge, node, view.baseShape, t.shape, t.strides, t.offset - view.baseOffset);
  copy.outputs[0] = { shape: view.baseShape, dtype: t.dtype };
  move(base, copy);
  refreshView(t, meta);
}

function move(meta: AutogradMeta, node: Node): void {
  meta.node = node;
  meta.outputIndex = 0;
  meta.hooks = undefined;
  meta.generation++;
}

/** The history of a view whose base changed in place: part of the base's gradient. */
class ViewOfBase extends Node {
  private readonly baseShape: Shape;
  private readonly geometry: readonly [shape: Shape, strides: Shape, offset: number];

  constructor(edge: Edge, baseShape: Shape, shape: Shape, strides: Shape, offset: number) {
    super('AsStridedBackward0', [edge]);
    this.baseShape = baseShape;
    this.geometry = [shape, strides, offset];
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    const grad = grads[0] ?? null;
    if (grad === null) return [null];
    const [shape, strides, offset] = this.geometry;
    return [asStridedAdd(grad, this.baseShape, { shape, strides, offset })];
  }
}

/** A change of part of a tensor: the gradient of that part goes through the change, the rest to what was there before. */
class CopySlices extends Node {
  private readonly inner: Node;
  private readonly geometry: readonly [shape: Shape, strides: Shape, offset: number];

  constructor(base: Edge | null, inner: Node, baseShape: Shape, shape: Shape, strides: Shape, offset: number) {
    super('CopySlices', [base, ...inner.nextEdges.slice(1)]);
    this.inner = inner;
    this.geometry = [shape, strides, offset];
    this.outputs = [{ shape: baseShape, dtype: 'float32' }];
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    const grad = grads[0] ?? null;
    if (grad === null) return this.nextEdges.map(() => null);
    const part = asStrided(grad, ...this.geometry);
    const [before, ...rest] = this.inner.apply([part]);
    const base = asStridedScatter(grad, before ?? part.mul(0), ...this.geometry);
    return [base, ...rest];
  }

  override release(): void {
    this.inner.release();
  }
}
