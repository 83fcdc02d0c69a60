/** @file Runs an operation: forward on raw tensors, derivative looked up in the table, observer told. */
import { ambient } from '../ambient.ts';
import { derivatives } from '../autograd/registry.ts';
import { OpNode } from '../autograd/op-node.ts';
import { requiresGrad, setHistory } from '../autograd/record.ts';
import { bring, deviceOf } from '../devices.ts';
import { isDifferentiable } from '../dtype.ts';
import { someElsewhere } from '../device.ts';
import { observed } from '../observed.ts';
import type { Tensor } from '../tensor.ts';
import type { Op } from './define.ts';
import { refusal } from './takes.ts';

/** Runs an operation and records it if gradients are wanted. */
export function apply<A>(op: Op<A>, inputs: readonly Tensor[], attrs: A): Tensor {
  const { gradMode, profile } = ambient();
  if (profile !== undefined) return observed(profile, op.torch, inputs, () => run(op, inputs, attrs, gradMode));
  return run(op, inputs, attrs, gradMode);
}

function run<A>(op: Op<A>, inputs: readonly Tensor[], attrs: A, gradMode: boolean): Tensor {
  const why = op.takes(inputs);
  if (why !== undefined) throw refusal(op.name, why, inputs);
  let output: Tensor;
  if (someElsewhere()) {
    const device = deviceOf(inputs);
    output = op.forward(inputs, attrs);
    if (device !== 'cpu' && op.moves !== true) bring(output, device);
  } else output = op.forward(inputs, attrs);
  if (gradMode && requiresGrad(inputs) && isDifferentiable(output.dtype)) {
    const rule = derivatives.get(op.name);
    if (rule !== undefined) setHistory([output], new OpNode(rule, op.gradName, inputs, output, attrs));
  }
  return output;
}
