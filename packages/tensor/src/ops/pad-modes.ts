/** @file Padding with elements of the tensor itself: mirrored, repeated, or from the other end. */
import { tensor } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { indexSelect } from './indexing.ts';
import { check, each, NUMBER } from './takes.ts';

/** The mirror image without the edge, the edge again and again, or the other end. */
export type PadMode = 'reflect' | 'replicate' | 'circular';

/** Pads the last dimensions, one to three of them: those of [C, …] or [N, C, …] that are no channels. */
export function padWith(t: Tensor, pads: readonly number[], mode: PadMode): Tensor {
  if (!['reflect', 'replicate', 'circular'].includes(mode)) throw new RangeError(`Unrecognised padding mode ${mode}`);
  // As PyTorch, which has kernels of numbers for two of the modes and joins pieces of any dtype for the third.
  if (mode !== 'circular') check(`pad with mode '${mode}'`, each(NUMBER), [t]);
  const dims = pads.length / 2;
  const fits = [1, 2, 3].includes(dims) && (t.rank === dims + 1 || t.rank === dims + 2);
  if (!fits)
    throw new ShapeError(
      `pad: mode '${mode}' takes 2, 4 or 6 numbers for [N, C, …] or [C, …] of as many pairs, but got ${pads.length} for rank ${t.rank}`,
    );
  if (!pads.every(Number.isInteger)) throw new ShapeError(`pad: [${pads.join(', ')}] are not whole numbers`);
  if (t.shape.slice(-dims - 1).includes(0))
    throw new ShapeError(`pad: mode '${mode}' has nothing to pad [${t.shape.join(', ')}] with`);
  return sweep(() => {
    let out = t.alias();
    for (let i = 0; i < dims; i++) {
      const d = t.rank - 1 - i;
      const positions = sources(t.shape[d] as number, pads[2 * i] as number, pads[2 * i + 1] as number, mode);
      out = indexSelect(out, d, tensor(BigInt64Array.from(positions, BigInt), { dtype: 'int64' }));
    }
    return out;
  });
}

/** From where each element along a dimension of size `n` comes. */
function sources(n: number, before: number, after: number, mode: PadMode): number[] {
  const most = { reflect: n - 1, circular: n, replicate: Infinity }[mode];
  if (before > most || after > most)
    throw new ShapeError(
      `pad: padding size should be at most ${most} for mode '${mode}' and a dimension of ${n}, but got (${before}, ${after})`,
    );
  const size = n + before + after;
  // What is cropped is at no other end either, as in PyTorch.
  const [first, last] = [Math.max(0, -before), n - Math.max(0, -after)];
  if (size < 1 || (mode === 'circular' && first >= last))
    throw new ShapeError(`pad: (${before}, ${after}) leaves nothing of a dimension of ${n}`);
  return Array.from({ length: size }, (_, i) => {
    const at = i - before;
    if (mode === 'circular') {
      const left = last - first;
      return first + ((((at - first) % left) + left) % left);
    }
    if (mode === 'replicate') return Math.min(Math.max(at, 0), n - 1);
    const mirrored = Math.abs(at);
    return mirrored >= n ? 2 * (n - 1) - mirrored : mirrored;
  });
}
