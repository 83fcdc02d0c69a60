/** @file Checks derivatives against differences of the function itself. */
import { kindOf } from '../../given.ts';
import { checkArguments } from '../../arguments.ts';
import { dtypes, encodeLanes } from '../../dtype.ts';
import { AutogradError } from '../../errors.ts';
import { fromArray, readNumbers } from '../../host.ts';
import { Tensor } from '../../tensor.ts';
import { grad } from './engine.ts';
import { noGrad } from '../record.ts';
import { checkOptionNames, optionNames } from '../../option-names.ts';

/** How finely `gradcheck` differentiates, and how far off a derivative may be. */
export interface GradcheckOptions {
  /** Step of the central difference. @default 1e-6 for float64 inputs, 1e-3 otherwise */
  eps?: number;
  /** How far off, relative to the derivative by differences. @default 1e-3 for float64 inputs, 2e-2 otherwise */
  rtol?: number;
  /** How far off besides, whatever the derivative is. @default 1e-5 for float64 inputs, 2e-3 otherwise */
  atol?: number;
}

const OPTIONS = optionNames<GradcheckOptions>()('eps rtol atol');

/**
 * Throws AutogradError unless the gradients of `fn` agree with central differences, for every input that requires them: those of complex
 * numbers, dL/d re + i dL/d im, by both parts. Give float64 inputs where there are: float32 and complex64 leave few correct digits in a
 * difference.
 */
export function gradcheck(
  fn: (...inputs: Tensor[]) => Tensor,
  inputs: readonly Tensor[],
  options: GradcheckOptions = {},
): void {
  checkOptionNames(options, OPTIONS, 'gradcheck()');
  checkArguments('gradcheck', [fn, inputs, options]);
  const double = inputs.every((t) => !t.requiresGrad || t.dtype === 'float64');
  const { eps = double ? 1e-6 : 1e-3, rtol = double ? 1e-3 : 2e-2, atol = double ? 1e-5 : 2e-3 } = options;
  const wanted = inputs.filter((t) => t.requiresGrad);
  if (wanted.length === 0) throw new AutogradError('gradcheck expects at least one input tensor to require gradient');
  const output = fn(...inputs);
  if (!(output instanceof Tensor)) throw new TypeError(`gradcheck(): fn gives a Tensor, got ${kindOf(output)}`);
  const weights = weightsFor(numbersIn(output));
  const seed = fromArray(encodeLanes(weights, output.dtype), output.dtype, output.shape);
  const analytic = grad([output], wanted, { gradOutputs: [seed], allowUnused: true });
  wanted.forEach((t, k) => {
    const computed = analytic[k];
    const exact =
      computed === null || computed === undefined ? new Float64Array(numbersIn(t)) : readNumbers(computed.toDense());
    const measured = differences(fn, inputs, t, weights, eps);
    exact.forEach((a, i) => {
      const n = measured[i] as number;
      if (Math.abs(a - n) <= atol + rtol * Math.abs(n)) return;
      throw new AutogradError(
        `Jacobian mismatch for input ${inputs.indexOf(t)} at element ${i}: analytical ${a}, numerical ${n} (output weighted by fixed numbers)`,
      );
    });
  });
}

/** Complex elements are two numbers each. */
const numbersIn = (t: Tensor): number => t.size * dtypes[t.dtype].lanes;

/** Fixed, all different, of both signs: no two errors cancel by symmetry. */
function weightsFor(n: number): Float64Array {
  return Float64Array.from({ length: n }, (_, i) => Math.sin(1 + i * 1.7) + 0.3);
}

function differences(
  fn: (...inputs: Tensor[]) => Tensor,
  inputs: readonly Tensor[],
  at: Tensor,
  weights: Float64Array,
  eps: number,
): Float64Array {
  const values = Float64Array.from(readNumbers(at));
  const evaluate = (i: number, delta: number): number => {
    const moved = values.slice();
    moved[i] = (moved[i] as number) + delta;
    // It requires gradients like the input it stands for: the function may differentiate itself.
    const probe = fromArray(encodeLanes(moved, at.dtype), at.dtype, at.shape, true);
    const out = noGrad(() => fn(...inputs.map((t) => (t === at ? probe : t))));
    let total = 0;
    readNumbers(out).forEach((v: number, k: number) => (total += v * (weights[k] as number)));
    return total;
  };
  return Float64Array.from({ length: numbersIn(at) }, (_, i) => (evaluate(i, eps) - evaluate(i, -eps)) / (2 * eps));
}
