/** @file Second derivatives: the gradient of an operation, recorded, and differentiated again; and third ones. */
import { Draw } from '../draw/draw.ts';
import { drawCall, type Operation } from '../draw/operation.ts';
import { operations } from '../operations/table.ts';
import { isInput } from '../program.ts';
import type { Suite } from './suite.ts';

/** Those that have derivatives: what changes in place has its own suite. */
const smooth: readonly Operation[] = operations.filter(
  ({ name, rounding }) =>
    rounding !== 'inPlace' &&
    !/indices|argM|argSort|isNaN|isInf|isFinite|^(eq|ne|lt|le|gt|ge)\b|logical|oneHot|bincount|nonzero|any|all|item|equal|allClose|zeros|ones|full|eye|arange|linspace|tensor/.test(
      name,
    ),
);

/** The gradient of a recorded gradient, of which there may be none. */
const AGAIN = {
  ts: '$0 === null || !$0.requiresGrad ? null : bw.grad([$0], [$1], { gradOutputs: [weights($0)], createGraph: true, allowUnused: true })[0]',
  py: 'None if $0 is None or not $0.requires_grad else torch.autograd.grad($0, $1, weights($0), create_graph=True, allow_unused=True)[0]',
} as const;

export const secondSuite: Suite = {
  name: 'second',
  perSeed: 600,
  draw(random, seed) {
    const operation = random.pick(smooth);
    const dtype = random.weighted({ float64: 5, float32: 4, complex64: 0.5 });
    const draw = new Draw(random, { dtype, mishaps: 0, views: 0.15, longest: 3 });
    const result = drawCall(draw, operation);
    const leaves = draw.lines.flatMap((line, ref) => (isInput(line) && line.requiresGrad ? [{ ref }] : []));
    if (leaves.length > 0) {
      const first = draw.call(
        'grad',
        'bw.grad([$0], [$1], { gradOutputs: [weights($0)], createGraph: true, allowUnused: true })[0]',
        'torch.autograd.grad($0, $1, weights($0), create_graph=True, allow_unused=True)[0]',
        [result, random.pick(leaves)],
        'once',
      );
      // Now and then the third derivatives, in which too many terms cancel for single precision.
      if (dtype === 'float64' && random.chance(0.3))
        draw.backward(draw.call('grad', AGAIN.ts, AGAIN.py, [first, random.pick(leaves)], 'once'));
      else draw.backward(first);
    } else draw.backward(result);
    return draw.program('second', seed);
  },
};
