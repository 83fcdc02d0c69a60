/** @file The layers of LSTM, GRU and RNN as one operation against the same in double precision, which is made of many: no kernel takes it. */
import { describe, expect, it, vi } from 'vitest';
import { ambient, runWith, type OpObserver } from '../ambient.ts';
import {
  autocast,
  backendName,
  findLeaks,
  grad,
  manualSeed,
  nn,
  noGrad,
  randn,
  scope,
  setBackend,
  tensor,
  type Tensor,
  zeros,
} from '../index.ts';

/** Backends that have the operation. */
const onHeap = ['wasm', 'blas', 'tensorflow'].includes(backendName());

interface Kind {
  readonly name: string;
  /** What the operation is called in the graph and in profiles. */
  readonly node: string;
  readonly event: string;
  /** What its activations are in the graph when it is made of many. */
  readonly parts: RegExp;
  readonly states: number;
  readonly make: (inputs: number, hidden: number, options?: nn.RecurrentOptions) => nn.LSTM | nn.GRU | nn.RNN;
}

const KINDS: readonly Kind[] = [
  {
    name: 'LSTM',
    node: 'MkldnnRnnLayerBackward0',
    event: 'aten::mkldnn_rnn_layer',
    parts: /Sigmoid|Tanh/,
    states: 2,
    make: (inputs, hidden, options) => new nn.LSTM(inputs, hidden, options),
  },
  {
    name: 'GRU',
    node: 'GruLayerBackward0',
    event: 'backwire::gru_layer',
    parts: /Sigmoid|Tanh/,
    states: 1,
    make: (inputs, hidden, options) => new nn.GRU(inputs, hidden, options),
  },
  {
    name: 'RNN of tanh',
    node: 'RnnTanhLayerBackward0',
    event: 'backwire::rnn_tanh_layer',
    parts: /^Tanh/,
    states: 1,
    make: (inputs, hidden, options) => new nn.RNN(inputs, hidden, options),
  },
  {
    name: 'RNN of relu',
    node: 'RnnReluLayerBackward0',
    event: 'backwire::rnn_relu_layer',
    parts: /^Relu/,
    states: 1,
    make: (inputs, hidden, options) => new nn.RNN(inputs, hidden, { ...options, nonlinearity: 'relu' }),
  },
];

type Layer = ReturnType<Kind['make']>;

/** Outputs, and the states that the sequences end with. */
function run(layer: Layer, x: Tensor, states?: readonly Tensor[]): [Tensor, Tensor[]] {
  if (layer instanceof nn.LSTM) {
    const [output, last] = layer.forward(x, states as [Tensor, Tensor] | undefined);
    return [output, last];
  }
  const [output, last] = layer.forward(x, states?.[0]);
  return [output, [last]];
}

interface Size {
  readonly steps: number;
  readonly rows: number;
  readonly inputs: number;
  readonly hidden: number;
  readonly layers?: number;
  readonly bidirectional?: boolean;
  readonly bias?: boolean;
  readonly batchFirst?: boolean;
}

/** On both sides of what is worth a kernel, of four units, and of the products that a library computes. */
const SIZES: readonly Size[] = [
  { steps: 1, rows: 1, inputs: 1, hidden: 1 },
  { steps: 2, rows: 3, inputs: 2, hidden: 7 },
  { steps: 1, rows: 1, inputs: 3, hidden: 32 },
  { steps: 3, rows: 1, inputs: 4, hidden: 33 },
  { steps: 5, rows: 3, inputs: 6, hidden: 17 },
  { steps: 4, rows: 2, inputs: 5, hidden: 19, layers: 2, bidirectional: true },
  { steps: 7, rows: 5, inputs: 3, hidden: 13, bias: false, batchFirst: true },
  { steps: 3, rows: 16, inputs: 8, hidden: 96 },
];

/** A leaf of these values. */
function wanted(values: Tensor, requiresGrad = true): Tensor {
  const own = values.detach();
  own.requiresGrad = requiresGrad;
  return own;
}

/** What a layer of this size answers, and the gradients of a sum with given factors, in single or in double precision. */
function computed(kind: Kind, size: Size, dtype: 'float32' | 'float64', weighs: readonly boolean[]) {
  const { steps, rows, inputs, hidden, layers = 1, bidirectional = false, bias = true, batchFirst = false } = size;
  manualSeed(7);
  const layer = kind.make(inputs, hidden, { layers, bidirectional, bias, batchFirst }).to(dtype);
  const count = layers * (bidirectional ? 2 : 1);
  const given = (...shape: number[]): Tensor => wanted(randn(shape).to(dtype));
  const x = batchFirst ? given(rows, steps, inputs) : given(steps, rows, inputs);
  const starts = Array.from({ length: kind.states }, () => given(count, rows, hidden));
  const [output, last] = run(layer, x, starts);
  const results = [output, ...last];
  const loss = results
    .map((t) => t.mul(randn([...t.shape]).to(dtype)).sum())
    .filter((_, i) => weighs[i])
    .reduce((a, b) => a.add(b));
  const leaves = [x, ...starts, ...layer.parameters()];
  return { layer, results, loss, leaves };
}

/** The names of the functions of a graph. */
function functionsOf(results: readonly Tensor[]): string[] {
  const found = new Set<string>();
  const visit = (fn: Tensor['gradFn']): void => {
    if (fn === null || fn === undefined) return;
    found.add(fn.name);
    fn.nextFunctions.forEach(visit);
  };
  results.forEach((t) => visit(t.gradFn));
  return [...found];
}

function expectNear(
  got: readonly (Tensor | null)[],
  exact: readonly (Tensor | null)[],
  what: string,
  most = 3e-6,
): void {
  expect(got.length).toBe(exact.length);
  got.forEach((t, i) => {
    const expected = exact[i] ?? null;
    if (t === null || expected === null) return expect([t, expected], `${what} ${i}`).toEqual([null, null]);
    expect(t.shape).toEqual(expected.shape);
    const scale = Math.max(1e-3, expected.abs().amax().item());
    const off = t.to('float64').sub(expected).abs().amax().item();
    expect(off / scale, `${what} ${i}`).toBeLessThan(most);
  });
}

/** Calls that each go on where the one before has ended, of inputs that depend on the weights too; and how often a hook of the weights ran. */
function chained(kind: Kind, dtype: 'float32' | 'float64', calls: number) {
  manualSeed(9);
  const layer = kind.make(4, 24).to(dtype);
  const weights = layer.parameters()[1] as Tensor;
  const hook = vi.fn((grad: Tensor) => grad.mul(0.5));
  weights.registerHook(hook);
  const x = wanted(randn([2, 3, 4]).to(dtype));
  let [output, state] = run(layer, x.mul(weights.square().sum()));
  for (let i = 1; i < calls; i++) [output, state] = run(layer, x, state);
  const loss = output
    .square()
    .sum()
    .add((state.at(-1) as Tensor).sum());
  return { loss, leaves: [x, ...layer.parameters()], hook };
}

/** Which of the results have a say: output and states. */
const WEIGHED: readonly (readonly boolean[])[] = [
  [true, true, true],
  [true, false, false],
  [false, true, false],
  [false, false, true],
];
const ALL = [true, true, true];

describe.each(KINDS)('the layer of an $name', (kind) => {
  it.each(SIZES)('$steps steps of $rows rows, $inputs to $hidden', (size) => {
    for (const weighs of WEIGHED.filter((weighed) => weighed.slice(0, kind.states + 1).includes(true))) {
      const [one, exact] = [computed(kind, size, 'float32', weighs), computed(kind, size, 'float64', weighs)];
      expectNear(one.results, exact.results, 'result');
      const gradients = ({ loss, leaves }: ReturnType<typeof computed>) => grad([loss], leaves, { allowUnused: true });
      expectNear(gradients(one), gradients(exact), `gradient, ${weighs.join()}`);
    }
  });

  it('gives each operand its gradient whichever others want one', () => {
    const size = { steps: 3, rows: 2, inputs: 5, hidden: 24 };
    const all = computed(kind, size, 'float64', ALL);
    const exact = grad([all.loss], all.leaves);
    const operands = all.leaves.length;
    for (let mask = 1; mask < 2 ** operands; mask++) {
      manualSeed(7);
      const layer = kind.make(size.inputs, size.hidden);
      const given = (...shape: number[]): Tensor => randn(shape).detach();
      const starts = [given(3, 2, 5), ...Array.from({ length: kind.states }, () => given(1, 2, 24))];
      const leaves = [...starts, ...layer.parameters()];
      leaves.forEach((t, i) => void (t.requiresGrad = (mask & (1 << i)) !== 0));
      const [output, last] = run(layer, leaves[0] as Tensor, leaves.slice(1, 1 + kind.states));
      const loss = [output, ...last].map((t) => t.mul(randn([...t.shape])).sum()).reduce((a, b) => a.add(b));
      const asked = leaves.filter((t) => t.requiresGrad);
      expectNear(
        grad([loss], asked),
        exact.filter((_, i) => leaves[i]?.requiresGrad),
        `gradient, ${mask}`,
      );
    }
  });

  it('has derivatives of its derivatives', () => {
    const size = { steps: 3, rows: 2, inputs: 4, hidden: 24, bidirectional: true };
    const second = (dtype: 'float32' | 'float64'): (Tensor | null)[] => {
      const { loss, leaves } = computed(kind, size, dtype, ALL);
      const first = grad([loss], leaves, { createGraph: true }) as Tensor[];
      return grad([first.map((t) => t.square().sum()).reduce((a, b) => a.add(b))], leaves);
    };
    expectNear(second('float32'), second('float64'), 'second derivative', 3e-5);
  });

  it('called again and again counts each way to a weight once, also where a pass is recorded', () => {
    for (const calls of [1, 2, 4]) {
      const exact = chained(kind, 'float64', calls);
      const expected = grad([exact.loss], exact.leaves);
      for (const createGraph of [false, true]) {
        const one = chained(kind, 'float32', calls);
        const first = grad([one.loss], one.leaves, { createGraph, retainGraph: true });
        expectNear(first, expected, `gradient of ${calls} calls`);
        expect(one.hook).toHaveBeenCalledTimes(1);
        one.loss.backward(undefined, { createGraph });
        expectNear(
          one.leaves.map((t) => t.grad as Tensor),
          expected,
          `accumulated gradient of ${calls} calls`,
        );
        expect(one.hook).toHaveBeenCalledTimes(2);
      }
      const twice = (dtype: 'float32' | 'float64'): (Tensor | null)[] => {
        const { loss, leaves } = chained(kind, dtype, calls);
        const first = grad([loss], leaves, { createGraph: true }) as Tensor[];
        return grad([first.map((t) => t.square().sum()).reduce((p, q) => p.add(q))], leaves);
      };
      expectNear(twice('float32'), twice('float64'), `second derivative of ${calls} calls`, 3e-5);
    }
  });

  it('keeps rows apart: what is not a number spoils its own alone', () => {
    const layer = kind.make(4, 24);
    const x = randn([3, 4, 4]).detach();
    const plain = noGrad(() => run(layer, x)[0]);
    const values = x.dataSync().slice();
    values[(1 * 4 + 2) * 4] = NaN;
    values[(2 * 4 + 1) * 4] = Infinity;
    const [output] = noGrad(() => run(layer, tensor(values, { shape: [3, 4, 4] })));
    const exact = noGrad(() => run(layer.double(), tensor(values, { shape: [3, 4, 4] }).double())[0]);
    const rows = (t: Tensor, row: number): number[] => [...(t.select(1, row).reshape([-1]).dataSync() as Float32Array)];
    for (const row of [0, 3]) expect(rows(output, row)).toEqual(rows(plain, row));
    expect(rows(output, 2).slice(0, 24)).toEqual(rows(plain, 2).slice(0, 24));
    expect(rows(output, 2).slice(24).every(Number.isNaN)).toBe(true);
    expect(rows(output, 1).slice(0, 48)).toEqual(rows(plain, 1).slice(0, 48));
    rows(output, 1).forEach((value, i) => {
      const y = rows(exact, 1)[i] as number;
      if (Number.isFinite(y)) expect(value).toBeCloseTo(y, 5);
      else expect(value).toBe(y);
    });
  });
});

it('a state that is none is refused by what it has to be', () => {
  const x = randn([2, 3, 4]);
  const h = zeros([1, 3, 5]);
  for (const state of [[h], h, [h, 1], [h, h, h]])
    expect(() => new nn.LSTM(4, 5).forward(x, state as never)).toThrow(/LSTM takes tensors \[h, c\]/);
  for (const layer of [new nn.GRU(4, 5), new nn.RNN(4, 5)])
    for (const state of [[h], 1]) expect(() => layer.forward(x, state as never)).toThrow(/takes a tensor h/);
});

describe.runIf(onHeap).each(KINDS)('the operation of an $name', (kind) => {
  const SIZE = { steps: 4, rows: 2, inputs: 3, hidden: 24 };

  it('is one function of the graph', () => {
    const found = functionsOf(computed(kind, SIZE, 'float32', ALL).results);
    expect(found).toContain(kind.node);
    expect(found.filter((name) => kind.parts.test(name))).toEqual([]);
  });

  it('is one event of a profile each way', () => {
    const names: string[] = [];
    const profile = { begin: (name: string) => names.push(name), end: () => undefined } as unknown as OpObserver;
    const layer = kind.make(3, 24);
    const x = randn([4, 2, 3]);
    runWith({ ...ambient(), profile }, () => run(layer, x)[0].sum().backward());
    expect(names.filter((name) => name.startsWith(kind.event))).toEqual([kind.event, `${kind.event}_backward`]);
    for (const part of ['aten::sigmoid', 'aten::tanh', 'aten::relu']) expect(names).not.toContain(part);
    names.length = 0;
    runWith({ ...ambient(), profile }, () => run(layer.double(), x.double()));
    expect(names).not.toContain(kind.event);
  });

  it('is made of many under autocast, which has other types for them', () => {
    const found = functionsOf([autocast(() => run(kind.make(3, 24), randn([4, 2, 3]))[0])]);
    expect(found).not.toContain(kind.node);
    expect(found.filter((name) => kind.parts.test(name))).not.toEqual([]);
  });

  it('goes back once, or as often as its values are kept', () => {
    const { loss, leaves } = computed(kind, SIZE, 'float32', ALL);
    const once = grad([loss], leaves, { retainGraph: true });
    expectNear(grad([loss], leaves), once, 'gradient', 1e-12);
    expect(() => grad([loss], leaves)).toThrow(/Trying to backward through the graph a second time/);
  });

  it('notices that its weights have changed since', () => {
    const { layer, loss } = computed(kind, SIZE, 'float32', ALL);
    noGrad(() => layer.parameters()[1]?.mul_(2));
    expect(() => loss.backward()).toThrow(/modified by an inplace operation/);
  });

  it('goes back where states and biases have changed since, whose values it does not read again', () => {
    const exact = computed(kind, SIZE, 'float32', ALL);
    const expected = grad([exact.loss], exact.leaves);
    const { leaves, loss } = computed(kind, SIZE, 'float32', ALL);
    const weights = 1 + kind.states;
    noGrad(() => leaves.forEach((t, i) => void ((i > 0 && i < weights) || i > weights + 1 ? t.mul_(2) : t)));
    expectNear(grad([loss], leaves), expected, 'gradient', 1e-12);
  });

  it('goes back in single precision where autocast is on by then', () => {
    const { results, leaves } = computed(kind, SIZE, 'float32', ALL);
    const [output] = results as [Tensor];
    const gradOutputs = [randn([...output.shape])];
    // The others' gradients go through the product with the inputs, which autocast lowers.
    const own = [...leaves.slice(1, 1 + kind.states), leaves[2 + kind.states] as Tensor];
    const inside = autocast(() => grad([output], own, { gradOutputs, retainGraph: true }));
    expectNear(inside, grad([output], own, { gradOutputs }), 'gradient', 1e-12);
  });

  it('refuses biases of another type than the weights, as layers that are made of many do', () => {
    const layer = kind.make(3, 24);
    const before = layer.parameters()[3] as Tensor;
    class Bias extends nn.Module {
      readonly bias = before;
    }
    new Bias().to('float64');
    expect(() => run(layer, randn([4, 2, 3]))).toThrow(/dtype/);
  });

  it('goes on where another backend computes the backward pass', async () => {
    const before = backendName() as 'wasm';
    const here = computed(kind, SIZE, 'float32', ALL);
    const exact = grad([here.loss], here.leaves, { retainGraph: true });
    const twice = chained(kind, 'float32', 2);
    const alike = grad([twice.loss], twice.leaves, { retainGraph: true });
    try {
      await setBackend('cpu');
      expectNear(grad([here.loss], here.leaves), exact, 'gradient');
      for (const retainGraph of [true, false])
        expectNear(grad([twice.loss], twice.leaves, { retainGraph }), alike, 'gradient of two calls');
      expect(twice.hook).toHaveBeenCalledTimes(3);
    } finally {
      await setBackend(before);
    }
  });

  it('lets go of all that it has made', async () => {
    const layer = kind.make(3, 24);
    const x = randn([4, 2, 3]).detach();
    const train = (): void =>
      scope(() => {
        run(layer, x)[0].sum().backward();
        layer.zeroGrad();
        noGrad(() => void run(layer, x));
        // Never gone back through.
        void run(layer, x);
      });
    train();
    expect((await findLeaks(train)).leaks).toEqual([]);
  });
});
