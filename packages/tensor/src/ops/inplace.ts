/** @file Operations that change a tensor's storage: computed out of place, written back, and put into its history. */
import { ambient } from '../ambient.ts';
import { derivatives } from '../autograd/registry.ts';
import { OpNode, type Derivative } from '../autograd/op-node.ts';
import { checkInPlace, rebaseHistory } from '../autograd/view-history.ts';
import { isDifferentiable, promote, dtypes, type DType } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { aligned, rawView, readBytes } from '../host.ts';
import { contiguousStrides, expandStrides, sameShape } from '../shape.ts';
import { copyStrided } from '../strided.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import type { Op } from './define.ts';
import { requiresGrad } from './op.ts';

/** Writes `source` (of the same dtype, broadcast to `t`'s shape) into the storage of `t`. Records nothing; counts a version. */
export function writeInto(t: Tensor, source: Tensor): void {
  if (t.strides.some((s, i) => s === 0 && (t.shape[i] as number) > 1)) {
    throw new ShapeError(
      'unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.',
    );
  }
  const width = dtypes[t.dtype].bytes;
  // Copied when both share memory: the walk would read what it has just written.
  const own = source.storage === t.storage ? readBytes(source).slice() : undefined;
  // The target first: getting at it may grow the device's memory, and that moves what was looked at before.
  const target = t.storage.mutate();
  const from = {
    bytes: aligned(own ?? readBytes(source), width),
    strides: expandStrides(source.shape, contiguousStrides(source.shape), t.shape),
    offset: 0,
  };
  copyStrided(from, { bytes: target, strides: t.strides, offset: t.offset }, t.shape, t.dtype);
}

/** Runs `op` with `t` as its first input and makes the result the new value of `t`. */
export function applyInPlace<T extends Tensor, A>(op: Op<A>, t: T, others: readonly Tensor[], attrs: A): T {
  const { gradMode, profile } = ambient();
  const inputs: Tensor[] = [t, ...others];
  if (profile === undefined) {
    runInPlace(op, t, inputs, attrs, gradMode);
    return t;
  }
  const token = profile.begin(`${op.torch}_`, inputs);
  let output: T | undefined;
  try {
    runInPlace(op, t, inputs, attrs, gradMode);
    output = t;
    return t;
  } finally {
    // Also when it throws: whatever comes next would be inside of it.
    profile.end(token, output);
  }
}

function runInPlace<A>(op: Op<A>, t: Tensor, inputs: readonly Tensor[], attrs: A, gradMode: boolean): void {
  checkInPlace(t, gradMode);
  sweep(() => {
    const result = op.forward(inputs, attrs);
    if (!sameShape(result.shape, t.shape)) {
      throw new ShapeError(
        `output with shape [${t.shape.join(', ')}] doesn't match the broadcast shape [${result.shape.join(', ')}]`,
      );
    }
    checkCast(result.dtype, t.dtype);
    const rule = gradMode && requiresGrad(inputs) && isDifferentiable(t.dtype) ? derivatives.get(op.name) : undefined;
    const before = rule === undefined ? undefined : oldValue(t, rule.save);
    writeInto(t, result.dtype === t.dtype ? result : result.to(t.dtype));
    if (rule !== undefined)
      rebaseHistory(t, new OpNode(rule, op.gradName, [before ?? t, ...inputs.slice(1)], t, attrs));
  });
}

/** A copy of the value before the change, for rules that save it. */
function oldValue(t: Tensor, save: Derivative['save']): Tensor | undefined {
  const keys = typeof save === 'function' ? save([true, true, true, true]) : save;
  if (!keys.includes(0)) return undefined;
  const copy = rawView(t, t.shape, t.strides, t.offset).clone();
  copy.meta = t.meta;
  return copy;
}

function checkCast(from: DType, to: DType): void {
  if (promote(from, to) !== to && dtypes[from].kind !== dtypes[to].kind) {
    throw new DTypeError(`result type ${from} can't be cast to the desired output type ${to}`);
  }
}
