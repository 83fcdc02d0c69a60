/** @file Any operations after each other, on tensors that they share: one tensor as several operands, results as operands, gradients that add up. */
import type { DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { FLOATS, INTEGERS } from '../dtypes.ts';
import { Draw } from '../draw/draw.ts';
import { drawCall, type Operation } from '../draw/operation.ts';
import { execute } from '../execute.ts';
import { ported } from '../operations/ported/table.ts';
import { operations } from '../operations/table.ts';
import { isTensor } from '../outcome.ts';
import type { Ref } from '../program.ts';
import type { Suite } from './suite.ts';

/** Layers and optimisers have suites of their own, with tensors that they alone have. */
const ROWS: readonly Operation[] = [...operations, ...ported].filter(
  ({ name, rounding, forms }) =>
    !/^(nn|optim)\./.test(name) && rounding !== 'step' && forms.every(({ ts }) => !ts.startsWith('!')),
);

function dtypeOf(random: Random): DType {
  const kind = random.weighted({ single: 8, float: 4, integer: 3, bool: 0.7, complex: 1.3 });
  if (kind === 'single') return 'float32';
  if (kind === 'float') return random.pick(FLOATS.slice(1));
  if (kind === 'integer') return random.pick(INTEGERS);
  return kind === 'bool' ? 'bool' : 'complex64';
}

/** Runs what is drawn so far, as only then the shape of a result is known. Undefined when something of it is refused. */
function knowResult(draw: Draw, ref: Ref): true | undefined {
  const { seen, refusal } = execute(draw.program('shared', ''));
  if (refusal !== undefined) return undefined;
  const one = seen[String(ref.ref)];
  if (isTensor(one) && !one.sparse) draw.know({ ref, shape: one.shape, dtype: one.dtype });
  return true;
}

export const sharedSuite: Suite = {
  name: 'shared',
  perSeed: 600,
  draw(random, seed) {
    const dtype = dtypeOf(random);
    const rows = ROWS.filter(({ dtypes }) => dtypes === undefined || dtypes.includes(dtype));
    // Few sizes, so that what one operation takes or gives often fits the next.
    const draw = new Draw(random, { dtype, mishaps: 0, views: 0.25, longest: 2, again: 0.6 });
    const results: Ref[] = [];
    for (let i = random.int(2, 5); i > 0; i--) {
      const result = drawCall(draw, random.pick(rows));
      results.push(result);
      if (knowResult(draw, result) === undefined) break;
    }
    for (const result of random.shuffle(results).slice(0, random.int(1, 3))) draw.backward(result, true);
    return draw.program('shared', seed);
  },
};
