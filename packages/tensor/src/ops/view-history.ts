/** @file Changes in place in the graph: one through a view becomes part of the base's history, and the view's follows its base's. */
import { zeros } from '../creation.ts';
import type { DType } from '../dtype.ts';
import { complex, imag, real } from './complex-parts.ts';
import { stack } from './stack.ts';
import { asStrided, asStridedAdd, asStridedScatter, type Geometry } from './as-strided.ts';
import { extentOf, isContiguous, type Shape } from '../shape.ts';
import { FunctionNode } from '../autograd/node.ts';
import { newMeta, type AutogradMeta, type Edge, type Node, type Tensor, type ViewInfo } from '../tensor.ts';
import { refuseStale } from '../autograd/views.ts';

/** Gives a view of a base that was changed in place since the history it has now. Throws where PyTorch has none for it. */
export function refreshView(t: Tensor, meta: AutogradMeta): void {
  const { view } = meta;
  if (view === undefined) return;
  if (view.origin !== 'recorded') refuseStale(t, meta, view);
  if (view.generation === view.base.generation) return;
  view.generation = view.base.generation;
  if (view.base.node === undefined) return;
  const edge = { node: view.base.node, inputIndex: view.base.outputIndex };
  const node = new ViewOfBase(edge, placeOf(t, view));
  node.outputs[0] = { shape: t.shape, dtype: t.dtype };
  meta.node = node;
  meta.outputIndex = 0;
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
  const { base } = view;
  const baseEdge = base.node === undefined ? null : { node: base.node, inputIndex: base.outputIndex };
  const copy = new CopySlices(baseEdge, node, placeOf(t, view));
  copy.outputs[0] = { shape: view.baseShape, dtype: view.baseDType };
  move(base, copy);
  refreshView(t, meta);
}

function move(meta: AutogradMeta, node: Node): void {
  meta.node = node;
  meta.outputIndex = 0;
  meta.hooks = undefined;
  meta.generation++;
  if (meta.retains) node.retainIn(0, meta);
}

/** Where a view lies: in its base's memory, and how that memory holds the base. */
interface Place {
  readonly baseShape: Shape;
  /** The base is complex and the view of its parts: all here is in float32, and the base has a last dimension of both parts. */
  readonly parts: boolean;
  /** The base in its memory, which is a vector of `extent` elements; undefined for a contiguous base. */
  readonly laid: { readonly extent: number; readonly strides: Shape } | undefined;
  readonly part: Geometry;
}

function placeOf(t: Tensor, view: ViewInfo): Place {
  const parts = view.baseDType !== t.dtype;
  const baseShape = parts ? [...view.baseShape, 2] : view.baseShape;
  const strides = parts ? [...view.baseStrides.map((s) => 2 * s), 1] : view.baseStrides;
  const offset = t.offset - (parts ? 2 : 1) * view.baseOffset;
  const laid = isContiguous(baseShape, strides) ? undefined : { extent: extentOf(baseShape, strides), strides };
  return { baseShape, parts, laid, part: { shape: t.shape, strides: t.strides, offset } };
}

/** A gradient of the base, as its memory holds it. */
function toMemory(grad: Tensor, { parts, laid, baseShape }: Place): Tensor {
  const plain = parts ? stack([real(grad), imag(grad)], -1) : grad;
  if (laid === undefined) return plain;
  return asStridedScatter(zeros([laid.extent], { dtype: plain.dtype }), plain, baseShape, laid.strides);
}

function fromMemory(memory: Tensor, { parts, laid, baseShape }: Place): Tensor {
  const plain = laid === undefined ? memory : asStrided(memory, baseShape, laid.strides);
  return parts ? complex(plain.select(-1, 0), plain.select(-1, 1)) : plain;
}

/** How many elements of an expanded view are one place: only one of them is what is there, and each has its part of the gradient. */
function timesOver({ shape, strides }: Geometry): number {
  return shape.reduce((times, n, i) => (strides[i] === 0 && n > 1 ? times * n : times), 1);
}

function asDType(t: Tensor, dtype: DType): Tensor {
  return t.dtype === dtype ? t : t.to(dtype);
}

/** The history of a view whose base changed in place: part of the base's gradient. */
class ViewOfBase extends FunctionNode {
  private readonly place: Place;

  constructor(edge: Edge, place: Place) {
    super('AsStridedBackward0', [edge]);
    this.place = place;
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    const grad = grads[0] ?? null;
    if (grad === null) return [null];
    const { baseShape, laid, part } = this.place;
    return [fromMemory(asStridedAdd(grad, laid === undefined ? baseShape : [laid.extent], part), this.place)];
  }
}

/** A change of part of a tensor: the gradient of that part goes through the change, the rest to what was there before. */
class CopySlices extends FunctionNode {
  private readonly inner: Node;
  private readonly place: Place;

  constructor(base: Edge | null, inner: Node, place: Place) {
    super('CopySlices', [base, ...inner.nextEdges.slice(1)]);
    this.inner = inner;
    this.place = place;
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    const grad = grads[0] ?? null;
    if (grad === null) return this.nextEdges.map(() => null);
    const { shape, strides, offset } = this.place.part;
    const memory = toMemory(grad, this.place);
    const part = asStrided(memory, shape, strides, offset);
    const times = timesOver(this.place.part);
    const [before, ...rest] = this.inner.apply([times === 1 ? part : part.div(times)]);
    if (this.nextEdges[0] === null) return [null, ...rest];
    // The function may work in a wider dtype than the tensor it changed.
    const { dtype } = memory;
    const old = before === null || before === undefined ? zeros(shape, { dtype }) : asDType(before, dtype);
    return [fromMemory(asStridedScatter(memory, old, shape, strides, offset), this.place), ...rest];
  }

  override release(): void {
    this.inner.release();
  }
}
