/** @file Every differentiable operation against central differences, in float64; twice for second derivatives. */
import { afterAll, describe, expect, it } from 'vitest';
import {
  backendName,
  enableGrad,
  grad,
  gradcheck,
  manualSeed,
  openHostDevice,
  rand,
  tensor,
  type GradFn,
  type Tensor,
} from '../src/index.ts';
import { derivatives } from '../src/autograd/registry.ts';
import type { Case } from './gradcheck/case.ts';
import { inPlace } from './gradcheck/in-place.ts';
import { LAYERS } from './gradcheck/layers.ts';
import { OPERATIONS } from './gradcheck/operations.ts';
import { SPARSE } from './gradcheck/sparse.ts';

openHostDevice('host:0');

const cases: readonly Case[] = [...OPERATIONS, ...LAYERS, ...SPARSE, ...inPlace()];

/** Values in ±[0.3, 1.3]: away from the kinks at 0, 1 and 2. */
function input(shape: number[], positive: boolean): Tensor {
  const magnitude = rand(shape, { dtype: 'float64' }).mul(0.6).add(0.3);
  const signed = positive ? magnitude : magnitude.mul(rand(shape).gt(0.5).to('float64').mul(2).sub(1));
  const t = signed.detach();
  t.requiresGrad = true;
  return t;
}

/** Fixed and all different. */
function weightsLike(t: Tensor): Tensor {
  return tensor(
    Float64Array.from({ length: t.size }, (_, i) => Math.cos(i * 1.3) + 0.2),
    { shape: t.shape },
  );
}

const positiveOnly = new Set(['log', 'log2', 'sqrt', 'rsqrt', 'pow', 'prod', 'cumprod', 'binaryPow']);

/** For what goes through float32: steps far larger than its rounding. */
const COARSE_CASES = new Set(['cast', 'sparse cast', 'complex parts', 'complex conjugate', 'complex angle']);
const COARSE = { eps: 4e-3, rtol: 1e-3 };

/** The rules that were checked. Functions of the graph have PyTorch's names, which several rules of ours may share. */
const checked = new Set<unknown>();
let checks = 0;

function noteFunctions(t: Tensor): void {
  const pending: (GradFn | null)[] = [t.gradFn];
  for (let fn = pending.pop(); fn !== undefined; fn = pending.pop()) {
    if (fn === null) continue;
    if ('rule' in fn) checked.add(fn.rule);
    pending.push(...fn.nextFunctions);
  }
}

describe('derivatives', () => {
  it.each(cases)('%s', (name, fn, ...shapes) => {
    manualSeed(7);
    const inputs = shapes.map((shape) => input(shape, positiveOnly.has(name)));
    gradcheck(fn, inputs, COARSE_CASES.has(name) ? COARSE : {});
    checks++;
    noteFunctions(fn(...inputs));
  });

  it.each(cases)('%s, second', (name, fn, ...shapes) => {
    manualSeed(8);
    const inputs = shapes.map((shape) => input(shape, positiveOnly.has(name)));
    // The numerical side runs without recording, but here the function itself differentiates.
    const first = (...t: Tensor[]): Tensor =>
      enableGrad(() => {
        const out = fn(...t);
        const weights = weightsLike(out);
        const [g] = grad([out.mul(weights).sum()], [t[0] as Tensor], {
          createGraph: true,
          allowUnused: true,
        });
        return g === null || g === undefined || !g.requiresGrad ? (t[0] as Tensor).mul(1) : g;
      });
    gradcheck(first, inputs, COARSE_CASES.has(name) ? COARSE : { atol: 1e-4 });
    checks++;
    noteFunctions(first(...inputs));
  });

  it('were checked for every rule in the table', () => {
    // Run alone by a filter, this test has nothing to look at.
    if (checks < 2 * cases.length) return;
    // These say that there is none; golden/values.json has them.
    const none = ['floorDivide', 'unique', 'bincount'];
    // Not the slope of its value, and that is what it is for; golden/ported.bin.gz has it.
    none.push('scaleGradient');
    // Of single precision alone; backends/images.test.ts compares their derivatives with those in double precision.
    none.push('convolve', 'convolveFilter', 'convolveImages');
    const missing = [...derivatives]
      .filter(([name, rule]) => !none.includes(name) && !checked.has(rule))
      .map(([name]) => name);
    expect(missing).toEqual([]);
  });

  afterAll(() => {
    console.info(
      `${backendName()}: ${checks} gradchecks of ${derivatives.size} derivative rules, half of them of second derivatives`,
    );
  });
});
