/** @file Second derivatives of layers: the gradient of a batch or of a weight, recorded, and differentiated again by all of them. */
import { Draw } from '../draw/draw.ts';
import { drawCall, type Operation } from '../draw/operation.ts';
import { ported } from '../operations/ported/table.ts';
import { isInput, type Arg, type Ref } from '../program.ts';
import { CURVED } from './layers.ts';
import { drawModule, RECORDED } from './modules.ts';
import type { Suite } from './suite.ts';

/** Layers and losses, which the suite of what is ported differentiates once. */
const rows: readonly Operation[] = ported.filter(
  ({ name, rounding }) => /^nn\.[A-Z]/.test(name) && rounding === 'sums',
);

/** The layer's result. */
function drawResult(draw: Draw): Ref {
  const { random } = draw;
  switch (random.int(0, 3)) {
    case 0: {
      const { run, input } = drawModule(draw);
      return run(input());
    }
    case 1:
      return random.pick(CURVED)(draw);
    default:
      return drawCall(draw, random.pick(rows));
  }
}

const GRADIENT = {
  ts: 'bw.grad([$0], [$1], { gradOutputs: [weights($0)], createGraph: true, allowUnused: true })[0]',
  py: 'torch.autograd.grad($0, $1, weights($0), create_graph=True, allow_unused=True)[0]',
} as const;

/** Of a layer that has learnt weights. */
const OF_WEIGHT = {
  ts: `$1.parameters().length === 0 ? null : ${RECORDED.ts}`,
  py: `None if not list($1.parameters()) else ${RECORDED.py}`,
} as const;

/** What is differentiated: an input, or one of the layer's parameters. */
function gradientOf(draw: Draw, result: Ref): Ref | undefined {
  const { random } = draw;
  const ways: (() => Ref)[] = [];
  for (const [ref, line] of draw.lines.entries()) {
    const recorded = (form: { ts: string; py: string }, ...args: Arg[]): Ref =>
      draw.call('grad', form.ts, form.py, [result, { ref }, ...args], 'once');
    if (isInput(line)) {
      if (line.requiresGrad) ways.push(() => recorded(GRADIENT));
    } else if (line.ts.startsWith('filled(') && !line.ts.includes('.forward(')) {
      if (/Linear|Conv|Norm|LSTM|GRU|RNN|Attention|Transformer|Embedding|PReLU|Bilinear/.test(line.ts))
        ways.push(() => recorded(OF_WEIGHT, random.int(0, 8)));
    }
  }
  return ways.length === 0 ? undefined : random.pick(ways)();
}

export const curvatureSuite: Suite = {
  name: 'curvature',
  perSeed: 400,
  draw(random, seed) {
    const draw = new Draw(random, { dtype: 'float32', mishaps: 0, views: 0.1, longest: 3 });
    const result = drawResult(draw);
    const first = gradientOf(draw, result);
    if (first === undefined) draw.backward(result);
    // A penalty on the size of the gradient, beside the loss itself.
    else if (random.chance(0.3)) {
      const penalised = draw.call(
        'penalty',
        '$1 === null ? $0.sum() : $0.sum().add($1.toDense().square().sum())',
        '$0.sum() if $1 is None else $0.sum() + $1.to_dense().square().sum()',
        [result, first],
        'sums',
      );
      draw.backward(penalised);
    } else draw.backward(first);
    return draw.program('curvature', seed);
  },
};
