/** @file Gradients of TensorFlow.js kernels for `lift`: tfjs-core's Node build registers none, and several it has differ from PyTorch. */
import { tf, type TfModule, type TfTensor } from './tfjs.ts';

type Attrs = Readonly<Record<string, unknown>>;
type Lazy = Readonly<Record<string, () => TfTensor>>;
interface Rule {
  readonly inputs?: readonly string[];
  readonly output?: boolean;
  readonly grad: (dy: TfTensor, saved: TfTensor[], attrs: Attrs, lib: TfModule) => Lazy;
}

let provided = false;

/** Registers a gradient for every kernel below that has none yet. */
export function provideGradients(): void {
  if (provided) return;
  provided = true;
  const lib = tf();
  for (const [kernelName, rule] of Object.entries(rules)) {
    if (lib.getGradient(kernelName) !== undefined) continue;
    lib.registerGradient({
      kernelName,
      inputsToSave: [...(rule.inputs ?? [])],
      outputsToSave: rule.output === true ? [true] : [],
      gradFunc: ((dy: TfTensor, saved: TfTensor[], attrs: Attrs) => rule.grad(dy, saved, attrs, lib)) as never,
    });
  }
}

/** dy summed over the dimensions that broadcasting added. */
function sumTo(lib: TfModule, dy: TfTensor, shape: readonly number[]): TfTensor {
  const axes = lib.broadcast_util.getReductionAxes([...shape], dy.shape);
  return lib.reshape(axes.length > 0 ? lib.sum(dy, axes) : dy, [...shape]);
}

const AB = ['a', 'b'];
const binary = (fa: (dy: TfTensor, a: TfTensor, b: TfTensor, lib: TfModule) => TfTensor, fb: typeof fa): Rule => ({
  inputs: AB,
  grad: (dy, saved, _attrs, lib) => {
    const [a, b] = saved as [TfTensor, TfTensor];
    return { a: () => sumTo(lib, fa(dy, a, b, lib), a.shape), b: () => sumTo(lib, fb(dy, a, b, lib), b.shape) };
  },
});

const unary = (f: (dy: TfTensor, x: TfTensor, lib: TfModule) => TfTensor): Rule => ({
  inputs: ['x'],
  grad: (dy, saved, _attrs, lib) => ({ x: () => f(dy, saved[0] as TfTensor, lib) }),
});
const ofOutput = (f: (dy: TfTensor, y: TfTensor, lib: TfModule) => TfTensor): Rule => ({
  output: true,
  grad: (dy, saved, _attrs, lib) => ({ x: () => f(dy, saved[0] as TfTensor, lib) }),
});
const flat = unary((_dy, x, lib) => lib.zerosLike(x));

/** Half to each where both are equal. */
const extreme = (wins: 'greater' | 'less'): Rule => {
  const share = (dy: TfTensor, a: TfTensor, b: TfTensor, lib: TfModule): TfTensor =>
    lib.mul(dy, lib.add(lib.cast(lib[wins](a, b), 'float32'), lib.mul(lib.cast(lib.equal(a, b), 'float32'), 0.5)));
  return binary(share, (dy, a, b, lib) => share(dy, b, a, lib));
};

const elementwise: Readonly<Record<string, Rule>> = {
  Add: binary(
    (dy) => dy,
    (dy) => dy,
  ),
  Sub: binary(
    (dy) => dy,
    (dy, _a, _b, lib) => lib.neg(dy),
  ),
  Multiply: binary(
    (dy, _a, b, lib) => lib.mul(dy, b),
    (dy, a, _b, lib) => lib.mul(dy, a),
  ),
  RealDiv: binary(
    (dy, _a, b, lib) => lib.div(dy, b),
    (dy, a, b, lib) => lib.neg(lib.div(lib.mul(dy, a), lib.square(b))),
  ),
  Pow: binary(
    (dy, a, b, lib) => lib.where(lib.equal(b, 0), lib.zerosLike(a), lib.mul(dy, lib.mul(b, lib.pow(a, lib.sub(b, 1))))),
    (dy, a, b, lib) => lib.where(lib.greater(a, 0), lib.mul(dy, lib.mul(lib.pow(a, b), lib.log(a))), lib.zerosLike(a)),
  ),
  Maximum: extreme('greater'),
  Minimum: extreme('less'),
  SquaredDifference: binary(
    (dy, a, b, lib) => lib.mul(dy, lib.mul(lib.sub(a, b), 2)),
    (dy, a, b, lib) => lib.mul(dy, lib.mul(lib.sub(b, a), 2)),
  ),
  Neg: unary((dy, _x, lib) => lib.neg(dy)),
  Abs: unary((dy, x, lib) => lib.mul(dy, lib.sign(x))),
  Exp: ofOutput((dy, y, lib) => lib.mul(dy, y)),
  Expm1: unary((dy, x, lib) => lib.mul(dy, lib.exp(x))),
  Log: unary((dy, x, lib) => lib.div(dy, x)),
  Log1p: unary((dy, x, lib) => lib.div(dy, lib.add(x, 1))),
  Sqrt: unary((dy, x, lib) => lib.div(dy, lib.mul(lib.sqrt(x), 2))),
  Rsqrt: unary((dy, x, lib) => lib.neg(lib.div(dy, lib.mul(lib.pow(x, 1.5), 2)))),
  Square: unary((dy, x, lib) => lib.mul(dy, lib.mul(x, 2))),
  Reciprocal: unary((dy, x, lib) => lib.neg(lib.div(dy, lib.square(x)))),
  Relu: unary((dy, x, lib) => lib.mul(dy, lib.step(x))),
  Relu6: unary((dy, x, lib) => lib.mul(dy, lib.mul(lib.step(x), lib.cast(lib.less(x, 6), 'float32')))),
  LeakyRelu: {
    inputs: ['x'],
    grad: (dy, saved, { alpha }, lib) => {
      const x = saved[0] as TfTensor;
      return { x: () => lib.where(lib.greater(x, 0), dy, lib.mul(dy, alpha as number)) };
    },
  },
  Elu: ofOutput((dy, y, lib) => lib.where(lib.greater(y, 0), dy, lib.mul(dy, lib.add(y, 1)))),
  Sigmoid: ofOutput((dy, y, lib) => lib.mul(dy, lib.mul(y, lib.sub(1, y)))),
  Tanh: ofOutput((dy, y, lib) => lib.mul(dy, lib.sub(1, lib.square(y)))),
  Softplus: unary((dy, x, lib) => lib.mul(dy, lib.sigmoid(x))),
  Sin: unary((dy, x, lib) => lib.mul(dy, lib.cos(x))),
  Cos: unary((dy, x, lib) => lib.neg(lib.mul(dy, lib.sin(x)))),
  Tan: unary((dy, x, lib) => lib.div(dy, lib.square(lib.cos(x)))),
  Erf: unary((dy, x, lib) => lib.mul(dy, lib.mul(lib.exp(lib.neg(lib.square(x))), 2 / Math.sqrt(Math.PI)))),
  Sign: flat,
  Floor: flat,
  Ceil: flat,
  Round: flat,
  Step: flat,
  Identity: unary((dy) => dy),
  Cast: unary((dy, x, lib) => lib.cast(dy, x.dtype)),
  ZerosLike: flat,
  OnesLike: flat,
  ClipByValue: {
    inputs: ['x'],
    grad: (dy, saved, attrs, lib) => {
      const x = saved[0] as TfTensor;
      const inside = (): TfTensor =>
        lib.logicalAnd(
          lib.greaterEqual(x, attrs['clipValueMin'] as number),
          lib.lessEqual(x, attrs['clipValueMax'] as number),
        );
      return { x: () => lib.mul(dy, lib.cast(inside(), 'float32')) };
    },
  },
  Select: {
    inputs: ['condition'],
    grad: (dy, saved, _attrs, lib) => {
      const c = lib.cast(saved[0] as TfTensor, 'float32');
      return {
        condition: () => lib.zerosLike(c),
        t: () => lib.mul(dy, c),
        e: () => lib.mul(dy, lib.sub(1, c)),
      };
    },
  },
};

const axesOf = (lib: TfModule, x: TfTensor, axis: unknown): number[] =>
  lib.util.parseAxisParam(axis as number, x.shape);

function spread(lib: TfModule, dy: TfTensor, x: TfTensor, axes: readonly number[]): TfTensor {
  return lib.broadcastTo(
    lib.reshape(
      dy,
      x.shape.map((n, i) => (axes.includes(i) ? 1 : n)),
    ),
    x.shape,
  );
}

const largest = (attr: string): Rule => ({
  inputs: ['x'],
  output: true,
  grad: (dy, saved, attrs, lib) => {
    const [x, y] = saved as [TfTensor, TfTensor];
    const axes = axesOf(lib, x, attrs[attr]);
    return {
      x: () => {
        const mask = lib.cast(lib.equal(x, spread(lib, y, x, axes)), 'float32');
        return lib.mul(spread(lib, dy, x, axes), lib.div(mask, lib.sum(mask, axes, true)));
      },
    };
  },
});

const reductions: Readonly<Record<string, Rule>> = {
  Sum: {
    inputs: ['x'],
    grad: (dy, saved, { axis }, lib) => {
      const x = saved[0] as TfTensor;
      return { x: () => spread(lib, dy, x, axesOf(lib, x, axis)) };
    },
  },
  Mean: {
    inputs: ['x'],
    grad: (dy, saved, { axis }, lib) => {
      const x = saved[0] as TfTensor;
      const axes = axesOf(lib, x, axis);
      const count = axes.reduce((n, d) => n * (x.shape[d] as number), 1);
      return { x: () => lib.div(spread(lib, dy, x, axes), count) };
    },
  },
  Max: largest('reductionIndices'),
  Min: largest('axis'),
  Softmax: {
    output: true,
    grad: (dy, saved, { dim }, lib) => {
      const y = saved[0] as TfTensor;
      const gy = lib.mul(dy, y);
      return { logits: () => lib.sub(gy, lib.mul(lib.sum(gy, [dim as number], true), y)) };
    },
  },
  LogSoftmax: {
    output: true,
    grad: (dy, saved, { axis }, lib) => ({
      logits: () => lib.sub(dy, lib.mul(lib.sum(dy, axis as number, true), lib.exp(saved[0] as TfTensor))),
    }),
  },
};

const structure: Readonly<Record<string, Rule>> = {
  Reshape: {
    inputs: ['x'],
    grad: (dy, saved, _attrs, lib) => ({ x: () => lib.reshape(dy, (saved[0] as TfTensor).shape) }),
  },
  ExpandDims: {
    inputs: ['input'],
    grad: (dy, saved, _attrs, lib) => ({ input: () => lib.reshape(dy, (saved[0] as TfTensor).shape) }),
  },
  BroadcastTo: {
    inputs: ['x'],
    grad: (dy, saved, _attrs, lib) => ({ x: () => sumTo(lib, dy, (saved[0] as TfTensor).shape) }),
  },
  Transpose: {
    grad: (dy, _saved, { perm }, lib) => ({
      x: () => lib.transpose(dy, lib.backend_util.getUndoAxesPermutation(perm as number[])),
    }),
  },
  Reverse: {
    grad: (dy, _saved, { dims }, lib) => ({
      x: () => lib.reverse(dy, lib.util.parseAxisParam(dims as number[], dy.shape)),
    }),
  },
  Slice: {
    inputs: ['x'],
    grad: (dy, saved, { begin, size }, lib) => {
      const x = saved[0] as TfTensor;
      const [from, count] = lib.slice_util.parseSliceParams(x, begin as number[], size as number[]) as [
        number[],
        number[],
      ];
      const pads = from.map((b, i): [number, number] => [b, (x.shape[i] as number) - b - (count[i] as number)]);
      return { x: () => lib.pad(dy, pads) };
    },
  },
  PadV2: {
    inputs: ['x'],
    grad: (dy, saved, { paddings }, lib) => ({
      x: () =>
        lib.slice(
          dy,
          (paddings as [number, number][]).map((p) => p[0]),
          (saved[0] as TfTensor).shape,
        ),
    }),
  },
  BatchMatMul: {
    inputs: AB,
    grad: (dy, saved, { transposeA, transposeB }, lib) => {
      const [a, b] = saved as [TfTensor, TfTensor];
      const [ta, tb] = [transposeA as boolean, transposeB as boolean];
      return {
        a: () => sumTo(lib, ta ? lib.matMul(b, dy, tb, true) : lib.matMul(dy, b, false, !tb), a.shape),
        b: () => sumTo(lib, tb ? lib.matMul(dy, a, true, ta) : lib.matMul(a, dy, !ta, false), b.shape),
      };
    },
  },
  Conv2D: {
    inputs: ['x', 'filter'],
    grad: (dy, saved, { strides, pad, dataFormat }, lib) => {
      const [x, filter] = saved as [TfTensor, TfTensor];
      const run = (kernel: string, inputs: object, attrs: object): TfTensor =>
        lib.engine().runKernel(kernel, inputs as never, attrs as never);
      return {
        x: () => run('Conv2DBackpropInput', { dy, filter }, { strides, pad, dataFormat, inputShape: x.shape }),
        filter: () => run('Conv2DBackpropFilter', { x, dy }, { strides, pad, dataFormat, filterShape: filter.shape }),
      };
    },
  },
};

const rules: Readonly<Record<string, Rule>> = { ...elementwise, ...reductions, ...structure };
