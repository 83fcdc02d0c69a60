/** @file Complex tensors: values and gradients against PyTorch's (golden/complex.json), and against differences of the functions. */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import { backendName, enableGrad, fromBytes, grad, gradcheck, tensor, type DType, type Tensor } from '../src/index.ts';

interface Packed {
  dtype: DType;
  shape: number[];
  data: (number | string | boolean)[];
}
interface Case {
  name: string;
  fn: string;
  inputs: Packed[];
  args?: unknown[];
  output: Packed;
  weights?: Packed;
  grads?: (Packed | null)[];
}
const { cases } = JSON.parse(readFileSync(new URL('../golden/complex.json', import.meta.url), 'utf8')) as {
  cases: Case[];
};

const words = { nan: NaN, inf: Infinity, '-inf': -Infinity };
const number = (v: number | string | boolean): number => (typeof v === 'string' ? words[v as 'nan'] : Number(v));

function unpack({ dtype, shape, data }: Packed, requiresGrad = false): Tensor {
  const values = Float64Array.from(data, number);
  const t =
    dtype === 'complex64'
      ? fromBytes(new Uint8Array(Float32Array.from(values).buffer), shape, dtype)
      : tensor(values, { shape }).to(dtype);
  if (requiresGrad) t.requiresGrad = true;
  return t;
}

/** The parts of complex numbers one after the other; real numbers as they are. */
function numbers(t: Tensor): number[] {
  const parts = t.dtype === 'complex64' ? bw.stack([bw.real(t), bw.imag(t)], -1) : t;
  return [...parts.detach().to('float64').dataSync()];
}

/** Both parts are as exact as the larger of them; the goldens are computed in double precision. */
function expectClose(t: Tensor, wanted: Packed, what: string, rtol: number): void {
  expect([t.dtype, [...t.shape]], what).toEqual([wanted.dtype, wanted.shape]);
  const got = numbers(t);
  const lanes = wanted.dtype === 'complex64' ? 2 : 1;
  const wrong: string[] = [];
  const values = wanted.data.map(number);
  values.forEach((w, i) => {
    const g = got[i] as number;
    if (Object.is(g, w) || g === w) return;
    const size = lanes === 2 ? Math.hypot(w, values[i ^ 1] as number) : Math.abs(w);
    if (!(Math.abs(g - w) <= rtol * size + 1e-30)) wrong.push(`[${i}] ${g} for ${w}`);
  });
  expect(wrong, what).toEqual([]);
}

const rows = tensor([2n, 0n, 2n]);
const table = tensor([
  [0n, 2n, 2n],
  [1n, 1n, 0n],
]);
const places = tensor([
  [0n, 2n, 1n],
  [1n, 2n, 0n],
]);
const mask = tensor([true, false, true]);

type Run = (...args: never[]) => Tensor;
type Methods = Record<string, (...args: unknown[]) => Tensor>;
const functions = bw as unknown as Record<string, (...args: unknown[]) => Tensor>;

const special: Record<string, Run> = {
  whereMask: (a: Tensor, b: Tensor) => bw.where(mask, a, b),
  maskedFillMask: (t: Tensor, value: number) => t.maskedFill(mask, value),
  maskedSelectMask: (t: Tensor) => t.maskedSelect(mask.expand(t.shape)),
  indexSelectRows: (t: Tensor) => t.indexSelect(0, rows),
  indexAddRows: (t: Tensor, s: Tensor) => t.indexAdd(0, rows, s),
  gatherTable: (t: Tensor) => t.gather(1, table),
  scatterAddTable: (t: Tensor, s: Tensor) => t.scatterAdd(1, table, s),
  scatterTable: (t: Tensor, s: Tensor) => t.scatter(1, places, s),
  concatTwo: (a: Tensor, b: Tensor) => bw.concat([a, b], 1),
  stackTwo: (a: Tensor, b: Tensor) => bw.stack([a, b], 1),
  conv2dStrided: (x: Tensor, w: Tensor, bias: Tensor) => bw.conv2d(x, w, { bias, stride: 2, padding: 1 }),
  conv1dPadded: (x: Tensor, w: Tensor) => bw.conv1d(x, w, { padding: 1 }),
  convTranspose2dStrided: (x: Tensor, w: Tensor) => bw.convTranspose2d(x, w, { stride: 2 }),
  std: (t: Tensor, dim: number) => bw.std(t, dim),
  'transposed:matmul': (a: Tensor, b: Tensor) => a.transpose(0, 1).matmul(b.transpose(0, 1)),
  changedDiagonal: (t: Tensor, by: Tensor) => {
    const x = t.mul(1);
    x.diagonal().mul_(by);
    return x;
  },
  changedRow: (t: Tensor, by: Tensor) => {
    const x = t.mul(1);
    x.select(0, 1).mul_(by);
    return x;
  },
  changedColumn: (t: Tensor, by: Tensor) => {
    const x = t.mul(1);
    x.transpose(0, 1).select(0, 1).mul_(by);
    return x;
  },
};

/** The weights with which goldens of second derivatives take the first: all different. */
function weightsOf(out: Tensor): Tensor {
  const part = (f: (i: number) => number): Tensor =>
    tensor(
      Float32Array.from({ length: out.size }, (_, i) => f(i)),
      { shape: out.shape },
    );
  const re = part((i) => Math.sin(i * 0.7) + 1.1);
  if (out.dtype !== 'complex64') return re;
  return bw.complex(
    re,
    part((i) => Math.cos(i * 1.3) * 0.8),
  );
}

const firstOf =
  (fn: (t: Tensor) => Tensor) =>
  (t: Tensor): Tensor =>
    enableGrad(() => {
      const out = fn(t);
      const [g] = grad([out], [t], { gradOutputs: [weightsOf(out)], createGraph: true });
      return g as Tensor;
    });
const seconds: Record<string, (t: Tensor) => Tensor> = {
  cube: (t) => t.mul(t).mul(t),
  prod: (t) => t.prod(),
  cumprod0: (t) => t.cumprod(0),
  square: (t) => t.matmul(t),
};

function operationOf(fn: string): (...args: unknown[]) => Tensor {
  const [way, name = ''] = fn.includes(':') ? fn.split(':') : ['', fn];
  if (special[fn] !== undefined) return special[fn] as (...args: unknown[]) => Tensor;
  if (way === 'transposed') return (t) => functions[name]?.((t as Tensor).transpose(0, 1)) as Tensor;
  if (way === 'second') {
    const first = seconds[name] ?? ((t: Tensor) => functions[name]?.(t) as Tensor);
    return (t) => firstOf(first)(t as Tensor);
  }
  if (way === 'changed') return (t, ...rest) => ((t as Tensor).mul(1) as unknown as Methods)[name]?.(...rest) as Tensor;
  if (fn.startsWith('.')) return (t, ...rest) => (t as Methods)[fn.slice(1)]?.(...rest) as Tensor;
  const run = functions[fn];
  if (run === undefined) throw new Error(`no operation '${fn}'`);
  return run;
}

/** Where parts cancel, float32 operands of what is computed in several steps lose digits. */
const LOOSE =
  /^(second|log large|log1p|log2 large|acosh|atanh|asin|acos|prod|cumprod|pow|normalize|std|variance|matmul large|angle)/;

describe('complex operations give what PyTorch gives', () => {
  it.each(cases)('$name', ({ name, fn, inputs, args = [], output, weights, grads }) => {
    const rtol = LOOSE.test(name) ? 3e-5 : 3e-6;
    const leaves = inputs.map((p) => unpack(p, grads !== undefined));
    const out = operationOf(fn)(...leaves, ...args);
    expectClose(out, output, 'output', rtol);
    if (grads === undefined || weights === undefined) return;
    const got = grad([out], leaves, { gradOutputs: [unpack(weights)], allowUnused: true });
    grads.forEach((wanted, i) => {
      const g = got[i];
      if (wanted === null) expect(g, `gradient ${i}`).toBeNull();
      else expectClose(g as Tensor, wanted, `gradient ${i}`, rtol);
    });
  });

  afterAll(() => {
    const gradients = cases.reduce((n, c) => n + (c.grads ?? []).filter((g) => g !== null).length, 0);
    console.info(`${backendName()}: ${cases.length} complex golden cases and ${gradients} golden gradients compared`);
  });
});

/** Away from zero, from the branch cuts, and from where functions grow. */
function input(shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const part = (f: (i: number) => number): Tensor =>
    tensor(
      Float32Array.from({ length: size }, (_, i) => f(i)),
      { shape },
    );
  const t = bw.complex(
    part((i) => 0.6 + 0.25 * Math.sin(i * 2.1)),
    part((i) => 0.5 + 0.2 * Math.cos(i * 1.7)),
  );
  t.requiresGrad = true;
  return t;
}

const UNARY = (
  'neg abs angle conj exp expm1 log log1p log2 sqrt rsqrt square reciprocal sigmoid silu sin cos tan asin acos atan sinh cosh tanh ' +
  'asinh acosh atanh softsign real imag'
).split(' ');
const checks: [name: string, fn: (...t: Tensor[]) => Tensor, ...shapes: number[][]][] = [
  ...UNARY.map((name): [string, (t: Tensor) => Tensor, number[]] => [
    name,
    (t) => functions[name]?.(t) as Tensor,
    [2, 3],
  ]),
  ...(['add', 'sub', 'mul', 'div', 'pow'] as const).flatMap((name) => [
    [name, (a: Tensor, b: Tensor) => a[name](b), [2, 3], [3]] as [string, () => Tensor, number[], number[]],
    [`${name} number`, (a: Tensor) => a[name](1.5), [3]] as [string, () => Tensor, number[]],
  ]),
  ['mul_', (a, b) => a.mul(1).mul_(b), [2, 3], [3]],
  ['where', (a, b) => bw.where(mask, a, b), [2, 3], [3]],
  ['sum', (a) => a.sum(1), [2, 3]],
  ['mean', (a) => a.mean(), [2, 3]],
  ['prod', (a) => a.prod(1), [2, 3]],
  ['cumsum', (a) => a.cumsum(0), [3, 2]],
  ['cumprod', (a) => a.cumprod(1), [2, 3]],
  ['logSumExp', (a) => a.logSumExp(1), [2, 3]],
  ['norm', (a) => a.norm(2, 1), [2, 3]],
  ['variance', (a) => a.variance(), [4]],
  ['matmul', (a, b) => a.matmul(b), [2, 3], [3, 2]],
  ['gather', (a) => a.gather(1, table), [2, 3]],
  ['scatter', (a, b) => a.scatter(1, places, b), [2, 3], [2, 3]],
  ['conv2d', (a, b) => bw.conv2d(a, b), [1, 1, 3, 3], [2, 1, 2, 2]],
];

describe('complex derivatives agree with differences', () => {
  it.each(checks)('%s', (_name, fn, ...shapes) => {
    gradcheck(fn, shapes.map(input));
  });

  it.each(checks)('%s, second', (_name, fn, ...shapes) => {
    // Of the square, so that linear functions have one as well.
    gradcheck((...t) => firstOf((x) => fn(x.mul(x), ...t.slice(1)))(t[0] as Tensor), shapes.map(input), {
      rtol: 5e-2,
      atol: 1e-2,
    });
  });

  it('finds a derivative that is not conjugated', () => {
    const wrong = bw.customFunction({
      forward(ctx, a: Tensor) {
        ctx.saveForBackward(a);
        return a.square();
      },
      backward(ctx, g) {
        return [g.mul(ctx.saved[0]?.mul(2) as Tensor)];
      },
    });
    expect(() => gradcheck(wrong, [input([3])])).toThrow('Jacobian mismatch');
  });
});

describe('slopes on a branch cut', () => {
  const [inside, across] = [0.5, 2];
  const zeros = [0, -0];
  const points = [inside, -inside, across, -across].flatMap((x) => zeros.map((y) => [x, y] as const));
  const turned = points.map(([x, y]) => [y, x] as const);
  it.each(['acosh', 'asinh', 'atanh', 'acos', 'asin', 'atan', 'log', 'log1p', 'log2', 'sqrt', 'rsqrt'] as const)(
    'are those of the side that the sign of zero says: %s',
    (name) => {
      const slope = (x: number, y: number): [number, number] => {
        const z = bw.complex(tensor([x]), tensor([y])).detach();
        z.requiresGrad = true;
        bw[name](z).backward(bw.complex(tensor([1]), tensor([0])));
        return [bw.real(z.grad as Tensor).item(), bw.imag(z.grad as Tensor).item()];
      };
      // A little way from the cut, on that side of it.
      const away = (v: number): number => (v !== 0 ? v : Object.is(v, -0) ? -1e-3 : 1e-3);
      for (const [x, y] of [...points, ...turned]) {
        const [on, near] = [slope(x, y), slope(away(x), away(y))];
        expect(
          Math.hypot(on[0] - near[0], on[1] - near[1]),
          `${x} ${y}i: ${on.join(' ')}, near it ${near.join(' ')}`,
        ).toBeLessThan(0.02);
      }
    },
  );
});

describe('powers of complex numbers', () => {
  // Of a real number, the angle of any other power leaves a rest that is its rounding.
  it.each([-3, -2, -1, 0, 1, 2, 3, -0.5, 0.5])('of %s are real, or imaginary, of real numbers', (p) => {
    for (const x of [-2, -0.3, 1.5, 1e-10]) {
      for (const exponent of [p, tensor([p])]) {
        const power = bw.complex(tensor([x]), tensor([0])).pow(exponent);
        const [re, im] = [bw.real(power).item(), bw.imag(power).item()];
        const size = Math.abs(Math.fround(x)) ** p;
        const turned = x < 0 && !Number.isInteger(p);
        const exact = turned ? [0, Math.sign(p) * size] : [(x < 0 && p % 2 !== 0 ? -1 : 1) * size, 0];
        [re, im].forEach((part, k) => {
          const wanted = exact[k] as number;
          expect(Math.abs(part - wanted), `${x}: ${re} + ${im}i`).toBeLessThanOrEqual(1e-7 * Math.abs(wanted));
        });
      }
    }
  });

  it('of 0 are 1 and of 1 the numbers themselves, whatever these are', () => {
    const z = bw.complex(tensor([Infinity, NaN, 0, 2]), tensor([1, 2, 0, -0]));
    expect(bw.real(z.pow(0)).toArray()).toEqual([1, 1, 1, 1]);
    expect(bw.imag(z.pow(0)).toArray()).toEqual([0, 0, 0, 0]);
    expect(bw.real(z.pow(1)).toArray()).toEqual([Infinity, NaN, 0, 2]);
    expect(bw.imag(z.pow(1)).toArray()).toEqual([1, 2, 0, -0]);
  });
});
