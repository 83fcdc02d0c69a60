/** @file Operations that change a tensor's storage: computed out of place, written back, and put into its history. */
import { ambient } from '../ambient.ts';
import { derivatives } from '../autograd/registry.ts';
import { OpNode, type Derivative } from '../autograd/op-node.ts';
import { requiresGrad } from '../autograd/record.ts';
import { checkInPlace } from '../autograd/views.ts';
import { rebaseHistory } from './view-history.ts';
import { deviceOf } from '../devices.ts';
import { isDifferentiable, promote, dtypes, type DType } from '../dtype.ts';
import { someElsewhere } from '../device.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { aligned, rawView, readBytes } from '../host.ts';
import { contiguousStrides, expandStrides, sameShape } from '../shape.ts';
import { copyStrided } from '../strided.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import type { Op } from './define.ts';
import { checkDistinct, checkOverlap } from './overlap.ts';
import { refusal } from './takes.ts';

/** Writes `source` (of the same dtype, broadcast to `t`'s shape) into the storage of `t`. Records nothing; counts a version. */
function writeInto(t: Tensor, source: Tensor): void {
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

export interface InPlaceOptions {
  /** The operand as the program gave it, where that is not among the inputs. */
  readonly given?: Tensor | undefined;
  /** Writes one value everywhere: several elements may be one place. @default false */
  readonly uniform?: boolean;
}

/** Runs `op` with `t` as its first input and makes the result the new value of `t`. */
export function applyInPlace<T extends Tensor, A>(
  op: Op<A>,
  t: T,
  others: readonly Tensor[],
  attrs: A,
  options?: InPlaceOptions,
): T {
  const { gradMode, profile } = ambient();
  const inputs: Tensor[] = [t, ...others];
  if (profile === undefined) {
    runInPlace(op, t, inputs, attrs, admit(t, inputs, gradMode, options));
    return t;
  }
  const token = profile.begin(`${op.torch}_`, inputs);
  let output: T | undefined;
  try {
    runInPlace(op, t, inputs, attrs, admit(t, inputs, gradMode, options));
    output = t;
    return t;
  } finally {
    // Also when it throws: whatever comes next would be inside of it.
    profile.end(token, output);
  }
}

/** Throws where `t` may not be changed, or not by these operands; says whether the change is recorded. */
function admit(t: Tensor, inputs: readonly Tensor[], gradMode: boolean, options: InPlaceOptions | undefined): boolean {
  const recorded = gradMode && requiresGrad(inputs);
  if (someElsewhere()) deviceOf(inputs);
  if (gradMode) checkInPlace(t, recorded);
  if (options?.uniform !== true) checkDistinct(t);
  const given = options?.given;
  if (given !== undefined) checkOverlap(t, given);
  else for (let i = 1; i < inputs.length; i++) checkOverlap(t, inputs[i] as Tensor);
  return recorded;
}

function runInPlace<A>(op: Op<A>, t: Tensor, inputs: readonly Tensor[], attrs: A, recorded: boolean): void {
  sweep(() => {
    const why = op.takes(inputs);
    if (why !== undefined) throw refusal(`${op.name}_`, why, inputs);
    const result = op.forward(inputs, attrs);
    if (!sameShape(result.shape, t.shape)) {
      throw new ShapeError(
        `output with shape [${t.shape.join(', ')}] doesn't match the broadcast shape [${result.shape.join(', ')}]`,
      );
    }
    checkCast(op.name, result.dtype, t.dtype);
    const rule = recorded && isDifferentiable(t.dtype) ? derivatives.get(op.name) : undefined;
    // What is saved of the operands is their value now: one that shares the memory is no longer what it was.
    const node =
      rule === undefined
        ? undefined
        : new OpNode(rule, op.gradName, [oldValue(t, rule, inputs), ...inputs.slice(1)], undefined, attrs);
    const cast = result.dtype === t.dtype ? result : result.to(t.dtype);
    // Of a sparse tensor the entries change: where they stand stays.
    writeInto(t.sparse?.values ?? t, cast.sparse?.values ?? cast);
    if (node === undefined) return;
    node.saveOutput(t);
    rebaseHistory(t, node);
  });
}

/** `t` before the change: a copy where the rule saves it. */
function oldValue(t: Tensor, { save }: Derivative, inputs: readonly Tensor[]): Tensor {
  const keys = typeof save === 'function' ? save(inputs.map((input) => input.requiresGrad)) : save;
  if (!keys.includes(0)) return t;
  const copy = rawView(t, t.shape, t.strides, t.offset).clone();
  copy.meta = t.meta;
  return copy;
}

export function checkCast(name: string, from: DType, to: DType): void {
  if (promote(from, to) !== to && dtypes[from].kind !== dtypes[to].kind) {
    throw new DTypeError(
      `${name}_() gives ${from}: result type ${from} can't be cast to the desired output type ${to}. Use ${name}(), which gives another tensor`,
    );
  }
}
