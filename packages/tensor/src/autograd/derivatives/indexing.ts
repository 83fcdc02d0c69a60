/** @file Derivatives of choosing and adding by index. */
import { arange, zeros, zerosLike } from '../../creation.ts';
import { isGradEnabled } from '../record.ts';
import type { Along } from '../../ops/define.ts';
import {
  embeddingBag,
  gather,
  indexAdd,
  indexCopy,
  indexSelect,
  putAt,
  scatter,
  scatterAdd,
  takeAt,
} from '../../ops/indexing.ts';
import { conj } from '../../ops/complex-parts.ts';
import { scatterReduce, type ScatterReduceAttrs } from '../../ops/scatter-reduce.ts';
import { where } from '../../ops/where.ts';
import type { Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';
import { rule } from './rule.ts';

/** Of products each factor's share; of extremes what is one, in equal parts. Formulas follow PyTorch's. */
function scattered(grad: Tensor, saved: Saved, { dim, reduce, includeSelf }: ScatterReduceAttrs): (Tensor | null)[] {
  const [self, index, source, result] = [saved.input(0), saved.input(1), saved.input(2), saved.output()];
  let own: Tensor;
  let given: Tensor;
  if (reduce === 'prod') {
    const start = includeSelf ? self : scatter(self, dim, index, 1);
    const zeroSelf = start.detach().eq(0);
    const ones = where(zeroSelf, 1, start);
    // The quotient last: where nothing else is a factor, its own derivatives are equal and leave exactly nothing.
    own = grad.mul(conj(scatterReduce(ones, dim, index, source, 'prod'))).div(conj(ones));
    const zeroSource = source.detach().eq(0);
    const count = scatterAdd(zerosLike(start), dim, index, zeroSource.to(start.dtype));
    const alone = zeroSource.logicalAnd(gather(count, dim, index).eq(1));
    const others = scatterReduce(start, dim, index, where(zeroSource, 1, source), 'prod');
    const safe = where(zeroSource, 1, source);
    const beside = gather(grad.mul(conj(others)), dim, index);
    // Of several zeros each has the product, which is zero, or NaN beside what is not finite.
    given = where(alone, beside, gather(grad.mul(conj(result)), dim, index).div(conj(safe)));
    // Of two zeros each has a slope of zero, which is the other times the rest: it changes with the other.
    if (isGradEnabled()) {
      const zeros = scatterAdd(zerosLike(start), dim, index, where(zeroSource, source, 0));
      const paired = zeroSource.logicalAnd(gather(count, dim, index).eq(2));
      given = where(paired, beside.mul(conj(gather(zeros, dim, index).sub(source))), given);
    }
  } else {
    const chosen = gather(result.detach(), dim, index);
    const won = source.detach().eq(chosen).to(grad.dtype);
    const kept = self.detach().eq(result.detach()).to(grad.dtype);
    const counted = includeSelf ? kept : scatter(kept, dim, index, 0);
    // Nothing equals NaN: the gradient of that is NaN, too.
    const share = grad.div(scatterAdd(counted, dim, index, won));
    own = share.mul(counted);
    given = gather(share, dim, index).mul(won);
  }
  if (!includeSelf) own = scatter(own, dim, index, 0);
  return [saved.needs[0] === true ? own : null, null, saved.needs[2] === true ? given : null];
}

const base = (saved: Saved, grad: Tensor): Tensor => zeros(saved.shapes[0] as Shape, { dtype: grad.dtype });

/** The adjoint of indexSelect: slices added up in zeros, rows of a matrix as the bags of an embedding, which devices have a kernel for. */
function rowsAdded(grad: Tensor, saved: Saved, dim: number): Tensor {
  const index = saved.input(1);
  if (dim !== 0 || grad.rank !== 2 || grad.dtype !== 'float32') return indexAdd(base(saved, grad), dim, index, grad);
  return embeddingBag(grad, arange(grad.shape[0] as number), index, saved.shapes[0]?.[0] as number, false);
}

export const indexing: Readonly<Record<string, Derivative>> = {
  indexSelect: rule([1], (grad, saved, { dim }: Along) => [rowsAdded(grad, saved, dim), null]),
  indexAdd: rule([1], (grad, saved, { dim }: Along) => [
    grad,
    null,
    saved.needs[2] === true ? indexSelect(grad, dim, saved.input(1)).reshape(saved.shapes[2] as Shape) : null,
  ]),
  scaleGradient: rule([1], (grad, saved) => [grad.mul(saved.input(1)), null]),
  indexCopy: rule([1], (grad, saved, { dim }: Along) => {
    const index = saved.input(1);
    const shape = saved.shapes[2] as Shape;
    return [
      indexCopy(grad, dim, index, zeros(shape, { dtype: grad.dtype })),
      null,
      saved.needs[2] === true ? indexSelect(grad, dim, index).reshape(shape) : null,
    ];
  }),
  takeAt: rule([1], (grad, saved) => [putAt(grad, saved.input(1), saved.shapes[0] as Shape), null]),
  putAt: rule([1], (grad, saved) => [takeAt(grad, saved.input(1)), null]),
  embeddingBag: rule([1, 2], (grad, saved) => [
    indexAdd(base(saved, grad), 0, saved.input(1), indexSelect(grad, 0, saved.input(2))),
    null,
    null,
  ]),
  gather: rule([1], (grad, saved, { dim }: Along) => [scatterAdd(base(saved, grad), dim, saved.input(1), grad), null]),
  scatterAdd: rule([1], (grad, saved, { dim }: Along) => [
    grad,
    null,
    saved.needs[2] === true ? gather(grad, dim, saved.input(1)) : null,
  ]),
  scatterReduce: rule([0, 1, 2, 'output'], (grad, saved, attrs: ScatterReduceAttrs) => scattered(grad, saved, attrs)),
  scatter: rule([1], (grad, saved, { dim }: Along) => {
    const index = saved.input(1);
    return [
      scatter(grad, dim, index, zeros(index.shape, { dtype: grad.dtype })),
      null,
      saved.needs[2] === true ? gather(grad, dim, index) : null,
    ];
  }),
};
