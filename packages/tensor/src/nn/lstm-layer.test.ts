/** @file The layer of an LSTM as one operation against the same in double precision, which is made of many: no kernel takes it. */
import { describe, expect, it, vi } from 'vitest';
import { ambient, runWith, type OpObserver } from '../ambient.ts';
import {
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
} from '../index.ts';

/** Backends that have the operation. */
const onHeap = ['wasm', 'blas', 'tensorflow'].includes(backendName());
const OPERATION = 'MkldnnRnnLayerBackward0';

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

/** What an LSTM of this size answers, and the gradients of a sum with given factors, in single or in double precision. */
function computed(size: Size, dtype: 'float32' | 'float64', weighs: readonly boolean[]) {
  const { steps, rows, inputs, hidden, layers = 1, bidirectional = false, bias = true, batchFirst = false } = size;
  manualSeed(7);
  const layer = new nn.LSTM(inputs, hidden, { layers, bidirectional, bias, batchFirst }).to(dtype);
  const states = layers * (bidirectional ? 2 : 1);
  const given = (...shape: number[]): Tensor => wanted(randn(shape).to(dtype));
  const x = batchFirst ? given(rows, steps, inputs) : given(steps, rows, inputs);
  const [h0, c0] = [given(states, rows, hidden), given(states, rows, hidden)];
  const [output, [h, c]] = layer.forward(x, [h0, c0]);
  const results = [output, h, c];
  const loss = results
    .map((t) => t.mul(randn([...t.shape]).to(dtype)).sum())
    .filter((_, i) => weighs[i])
    .reduce((a, b) => a.add(b));
  const leaves = [x, h0, c0, ...layer.parameters()];
  return { layer, results, loss, leaves };
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
function chained(dtype: 'float32' | 'float64', calls: number) {
  manualSeed(9);
  const layer = new nn.LSTM(4, 24).to(dtype);
  const weights = layer.parameters()[1] as Tensor;
  const hook = vi.fn((grad: Tensor) => grad.mul(0.5));
  weights.registerHook(hook);
  const x = wanted(randn([2, 3, 4]).to(dtype));
  let [output, state] = layer.forward(x.mul(weights.square().sum()));
  for (let i = 1; i < calls; i++) [output, state] = layer.forward(x, state);
  return { loss: output.square().sum().add(state[1].sum()), leaves: [x, ...layer.parameters()], hook };
}

const WEIGHED = [
  [true, true, true],
  [true, false, false],
  [false, true, false],
  [false, false, true],
];

describe('the layer of an LSTM', () => {
  it.each(SIZES)('$steps steps of $rows rows, $inputs to $hidden', (size) => {
    for (const weighs of WEIGHED) {
      const [one, exact] = [computed(size, 'float32', weighs), computed(size, 'float64', weighs)];
      expectNear(one.results, exact.results, 'result');
      const gradients = ({ loss, leaves }: ReturnType<typeof computed>) => grad([loss], leaves, { allowUnused: true });
      expectNear(gradients(one), gradients(exact), `gradient, ${weighs.join()}`);
    }
  });

  it('gives each operand its gradient whichever others want one', () => {
    const size = { steps: 3, rows: 2, inputs: 5, hidden: 24 };
    const all = computed(size, 'float64', [true, true, true]);
    const exact = grad([all.loss], all.leaves);
    for (let mask = 1; mask < 2 ** 5; mask++) {
      const { layer, loss, leaves } = (() => {
        manualSeed(7);
        const lstm = new nn.LSTM(size.inputs, size.hidden);
        const given = (...shape: number[]): Tensor => randn(shape).detach();
        const own = [given(3, 2, 5), given(1, 2, 24), given(1, 2, 24), ...lstm.parameters()];
        own.forEach((t, i) => void (t.requiresGrad = (mask & (1 << Math.min(i, 4))) !== 0));
        const [output, [h, c]] = lstm.forward(own[0] as Tensor, [own[1] as Tensor, own[2] as Tensor]);
        const sum = [output, h, c].map((t) => t.mul(randn([...t.shape])).sum()).reduce((a, b) => a.add(b));
        return { layer: lstm, loss: sum, leaves: own };
      })();
      expect(layer.parameters().length).toBe(4);
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
      const { loss, leaves } = computed(size, dtype, [true, true, true]);
      const first = grad([loss], leaves, { createGraph: true }) as Tensor[];
      return grad([first.map((t) => t.square().sum()).reduce((a, b) => a.add(b))], leaves);
    };
    expectNear(second('float32'), second('float64'), 'second derivative', 3e-5);
  });

  it('called again and again counts each way to a weight once, also where a pass is recorded', () => {
    for (const calls of [1, 2, 4]) {
      const exact = chained('float64', calls);
      const expected = grad([exact.loss], exact.leaves);
      for (const createGraph of [false, true]) {
        const one = chained('float32', calls);
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
        const { loss, leaves } = chained(dtype, calls);
        const first = grad([loss], leaves, { createGraph: true }) as Tensor[];
        return grad([first.map((t) => t.square().sum()).reduce((p, q) => p.add(q))], leaves);
      };
      expectNear(twice('float32'), twice('float64'), `second derivative of ${calls} calls`, 3e-5);
    }
  });

  it('keeps rows apart: what is not a number spoils its own alone', () => {
    const layer = new nn.LSTM(4, 24);
    const x = randn([3, 4, 4]).detach();
    const plain = noGrad(() => layer.forward(x)[0]);
    const values = x.dataSync().slice();
    values[(1 * 4 + 2) * 4] = NaN;
    values[(2 * 4 + 1) * 4] = Infinity;
    const [output] = noGrad(() => layer.forward(tensor(values, { shape: [3, 4, 4] })));
    const rows = (t: Tensor, row: number): number[] => [...(t.select(1, row).reshape([-1]).dataSync() as Float32Array)];
    for (const row of [0, 3]) expect(rows(output, row)).toEqual(rows(plain, row));
    expect(rows(output, 2).slice(0, 24)).toEqual(rows(plain, 2).slice(0, 24));
    expect(rows(output, 2).slice(24).every(Number.isNaN)).toBe(true);
    expect(rows(output, 1).slice(0, 48)).toEqual(rows(plain, 1).slice(0, 48));
    expect(rows(output, 1).slice(48).every(Number.isFinite)).toBe(true);
  });
});

describe.runIf(onHeap)('the operation', () => {
  const SIZE = { steps: 4, rows: 2, inputs: 3, hidden: 24 };

  it('is one function of the graph', () => {
    const { results } = computed(SIZE, 'float32', [true, true, true]);
    const found = new Set<string>();
    const visit = (fn: Tensor['gradFn']): void => {
      if (fn === null || fn === undefined) return;
      found.add(fn.name);
      fn.nextFunctions.forEach(visit);
    };
    results.forEach((t) => visit(t.gradFn));
    expect(found).toContain(OPERATION);
    expect([...found].filter((name) => /Sigmoid|Tanh/.test(name))).toEqual([]);
  });

  it('is one event of a profile each way, by the names that they have in PyTorch', () => {
    const names: string[] = [];
    const profile = { begin: (name: string) => names.push(name), end: () => undefined } as unknown as OpObserver;
    const layer = new nn.LSTM(3, 24);
    runWith({ ...ambient(), profile }, () =>
      layer
        .forward(randn([4, 2, 3]))[0]
        .sum()
        .backward(),
    );
    expect(names.filter((name) => name.startsWith('aten::mkldnn_rnn_layer'))).toEqual([
      'aten::mkldnn_rnn_layer',
      'aten::mkldnn_rnn_layer_backward',
    ]);
    expect(names).not.toContain('aten::sigmoid');
    names.length = 0;
    runWith({ ...ambient(), profile }, () => layer.double().forward(randn([4, 2, 3]).double()));
    expect(names).not.toContain('aten::mkldnn_rnn_layer');
  });

  it('goes back once, or as often as its values are kept', () => {
    const { loss, leaves } = computed(SIZE, 'float32', [true, true, true]);
    const once = grad([loss], leaves, { retainGraph: true });
    expectNear(grad([loss], leaves), once, 'gradient', 1e-12);
    expect(() => grad([loss], leaves)).toThrow(/Trying to backward through the graph a second time/);
  });

  it('notices that its weights have changed since', () => {
    const { layer, loss } = computed(SIZE, 'float32', [true, true, true]);
    noGrad(() => layer.parameters()[1]?.mul_(2));
    expect(() => loss.backward()).toThrow(/modified by an inplace operation/);
  });

  it('goes on where another backend computes the backward pass', async () => {
    const before = backendName() as 'wasm';
    const here = computed(SIZE, 'float32', [true, true, true]);
    const exact = grad([here.loss], here.leaves, { retainGraph: true });
    const twice = chained('float32', 2);
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
    const layer = new nn.LSTM(3, 24);
    const x = randn([4, 2, 3]).detach();
    const train = (): void =>
      scope(() => {
        layer.forward(x)[0].sum().backward();
        layer.zeroGrad();
        noGrad(() => void layer.forward(x));
        // Never gone back through.
        void layer.forward(x);
      });
    train();
    expect((await findLeaks(train)).leaks).toEqual([]);
  });
});
