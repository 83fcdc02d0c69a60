/** @file What models are ported with: each function in turn, its gradients, and now and then its second derivatives. */
import { Draw, drawDType } from '../draw/draw.ts';
import { drawCall, type Operation } from '../draw/operation.ts';
import { ported } from '../operations/ported/table.ts';
import { isInput } from '../program.ts';
import type { Suite } from './suite.ts';

/** In which second derivatives are taken. */
const DOUBLES = ['float64', 'float32'] as const;

/** The row of a program, by its number: every row is drawn as often. */
export function rowOf(seed: string): Operation {
  const number = Number(seed.split('/').at(-1));
  return ported[number % ported.length] as Operation;
}

export const portedSuite: Suite = {
  name: 'ported',
  perSeed: 10 * ported.length,
  draw(random, seed) {
    const operation = rowOf(seed);
    const layer = /^(nn|optim)\./.test(operation.name);
    const twice =
      !layer &&
      operation.rounding !== 'inPlace' &&
      DOUBLES.some((one) => operation.dtypes?.includes(one) ?? true) &&
      random.chance(0.2);
    const dtype = twice
      ? random.pick(DOUBLES.filter((one) => operation.dtypes?.includes(one) ?? true))
      : operation.dtypes !== undefined && (layer || random.chance(0.93))
        ? random.pick(operation.dtypes)
        : drawDType(random);
    const draw = new Draw(random, twice ? { dtype, mishaps: 0, longest: 3 } : { dtype });
    const result = drawCall(draw, operation);
    const leaves = draw.lines.flatMap((line, ref) => (isInput(line) && line.requiresGrad ? [{ ref }] : []));
    if (operation.rounding === 'step' || operation.forms[0]?.ts.startsWith('!') === true)
      return draw.program('ported', seed);
    if (!twice || leaves.length === 0) draw.backward(result);
    else {
      const first = draw.call('grad', 'secondly($0, $1)', 'secondly($0, $1)', [result, random.pick(leaves)], 'once');
      draw.backward(first);
    }
    return draw.program('ported', seed);
  },
};
