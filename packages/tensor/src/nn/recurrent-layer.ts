/** @file One layer of an LSTM, GRU or RNN over a sequence as one operation: in single precision, where the backend has kernels for it. */
import { ambient, runWith } from '../ambient.ts';
import { programStack } from '../autograd/anomaly.ts';
import { grad } from '../autograd/backward/engine.ts';
import { FunctionNode, savedIsFreed } from '../autograd/node.ts';
import { enableGrad, gradEdge, requiresGrad, SavedTensor, setHistory } from '../autograd/record.ts';
import type { Backend } from '../backends/backend.ts';
import { observed } from '../observed.ts';
import { backendFor, runKernel } from '../ops/kernels.ts';
import { matmul } from '../ops/matmul.ts';
import {
  gatesLayoutOf,
  layoutOf,
  PARTS,
  type LayerLayout,
  type LayerSize,
  type Recurrence,
} from '../recurrent-layout.ts';
import { sweep } from '../scope.ts';
import type { Grads, Tensor } from '../tensor.ts';
import type { CellKind } from './cells.ts';

/**
 * What the operation reads: what inputs and biases give the gates [steps · rows, gates · hidden], the weights of the outputs
 * [gates · hidden, hidden], the states to begin with, each [rows, hidden], and of a GRU what is added to the products with the weights.
 */
export interface Operands {
  readonly prepared: Tensor;
  readonly weights: Tensor;
  readonly start: readonly Tensor[];
  readonly bias: Tensor | null;
}

/** All outputs [steps · rows, hidden], and of an LSTM the last cells [rows, hidden]. */
export type Results = readonly Tensor[];

/** The same as the operation, made of smaller ones. */
export type Plain = (operands: Operands) => Results;

interface Kind {
  readonly recurrence: Recurrence;
  /** What its kernels' names begin with. */
  readonly kernels: string;
  /** Its names in profiles and in the graph: PyTorch's of an LSTM, which is one operation there too; of the others it has none for a layer. */
  readonly event: string;
  readonly node: string;
  readonly attrs?: Readonly<Record<string, number>>;
}

const KINDS: Readonly<Record<CellKind, Kind>> = {
  lstm: { recurrence: 'lstm', kernels: 'Lstm', event: 'aten::mkldnn_rnn_layer', node: 'MkldnnRnnLayerBackward0' },
  gru: { recurrence: 'gru', kernels: 'Gru', event: 'backwire::gru_layer', node: 'GruLayerBackward0' },
  tanh: {
    recurrence: 'rnn',
    kernels: 'Rnn',
    event: 'backwire::rnn_tanh_layer',
    node: 'RnnTanhLayerBackward0',
    attrs: { relu: 0 },
  },
  relu: {
    recurrence: 'rnn',
    kernels: 'Rnn',
    event: 'backwire::rnn_relu_layer',
    node: 'RnnReluLayerBackward0',
    attrs: { relu: 1 },
  },
};

/** Its name in profiles. */
export const layerEvent = (kind: CellKind): string => KINDS[kind].event;

/** The backend that has the operation, where that pays and `tensors`, all that the layer is called with, are such as it takes. */
export function layerBackend(cell: CellKind, tensors: readonly Tensor[], size: LayerSize): Backend | undefined {
  // Autocast has other types for what it is made of.
  return ambient().autocast === undefined ? backendOf(KINDS[cell], tensors, size) : undefined;
}

function backendOf(
  { recurrence, kernels }: Kind,
  tensors: readonly Tensor[],
  { steps, rows, hidden }: LayerSize,
): Backend | undefined {
  const work = PARTS[recurrence].gates * steps * rows * hidden * hidden;
  if (work === 0 || tensors.some((t) => t.dtype !== 'float32' || t.device !== 'cpu')) return undefined;
  return backendFor(`${kernels}States`, 'matmul', work);
}

const attrsOf = (kind: Kind, { steps, rows, hidden, backwards }: LayerSize): Record<string, number> => ({
  steps,
  rows,
  hidden,
  backwards: backwards ? 1 : 0,
  ...kind.attrs,
});

const listed = ({ prepared, weights, start, bias }: Operands): Tensor[] => [
  prepared,
  weights,
  ...start,
  ...(bias === null ? [] : [bias]),
];

/** Of what `listed` makes. */
function named([prepared, weights, ...rest]: readonly Tensor[], states: number): Operands {
  return {
    prepared: prepared as Tensor,
    weights: weights as Tensor,
    start: rest.slice(0, states),
    bias: rest[states] ?? null,
  };
}

/** The layer, recorded if gradients are wanted. Derivatives of its derivatives are those of `plain`. */
export function recurrentLayer(
  cell: CellKind,
  backend: Backend,
  operands: Operands,
  size: LayerSize,
  plain: Plain,
): Results {
  const kind = KINDS[cell];
  const layout = layoutOf(kind.recurrence, size);
  const { steps, rows, hidden } = size;
  return sweep(() => {
    const { prepared: x, weights: w, start, bias } = operands;
    const [h, c] = start as [Tensor, Tensor?];
    const inputs = { x, w, h, ...(c ? { c } : {}), ...(bias ? { b: bias } : {}) };
    const states = runKernel(backend, `${kind.kernels}States`, inputs, attrsOf(kind, size), 'float32', [layout.size]);
    // Copies, which do not hold all of the states.
    const outputs = copied(backend, states, layout.outputs, [steps * rows, hidden]);
    const results = [outputs, ...layout.last.slice(1).map((at) => copied(backend, states, at, [rows, hidden]))];
    const list = listed(operands);
    if (ambient().gradMode && requiresGrad(list))
      setHistory(results, new LayerNode(kind, list, states, size, layout, plain));
    return results;
  });
}

/** Some of the elements of `t`, which lie together. */
function copied(backend: Backend, t: Tensor, offset: number, shape: readonly [number, number]): Tensor {
  const attrs = { offset, sizes: [1, 1, 1, shape[0] * shape[1]], strides: [0, 0, 0, 1] };
  return runKernel(backend, 'CopyStrided', { x: t }, attrs, 'float32', shape);
}

class LayerNode extends FunctionNode {
  private readonly kind: Kind;
  private readonly size: LayerSize;
  private readonly layout: LayerLayout;
  private readonly plain: Plain;
  private readonly needs: readonly boolean[];
  private saved: { readonly operands: readonly SavedTensor[]; readonly states: SavedTensor } | undefined;

  constructor(
    kind: Kind,
    operands: readonly Tensor[],
    states: Tensor,
    size: LayerSize,
    layout: LayerLayout,
    plain: Plain,
  ) {
    super(kind.node, operands.map(gradEdge), layout.states);
    this.kind = kind;
    this.size = size;
    this.layout = layout;
    this.plain = plain;
    this.needs = operands.map((t) => t.requiresGrad);
    const save = (t: Tensor): SavedTensor => new SavedTensor(t, this.name, false);
    this.saved = { operands: operands.map(save), states: save(states) };
    if (ambient().anomaly) this.origin = programStack(`forward call of ${this.name}`);
  }

  protected override backward(grads: Grads): Grads {
    const { saved, kind, size } = this;
    if (saved === undefined) throw savedIsFreed();
    const given = grads.filter((g) => g !== null);
    if (given.length === 0) return this.needs.map(() => null);
    const { gradMode, profile } = ambient();
    const backend = gradMode ? undefined : backendOf(kind, given, size);
    const operand = (one: SavedTensor): Tensor => one.unpack(this);
    if (backend === undefined) return this.byPlain(saved.operands.map(operand), grads);
    // The others may have changed: their values have gone into the states.
    const weights = operand(saved.operands[1] as SavedTensor);
    const states = saved.states.unpack(this);
    // As it was computed, also where autocast is on by now.
    const compute = (): Grads => runWith({ autocast: undefined }, () => this.byKernel(backend, weights, states, grads));
    if (profile === undefined) return compute();
    let found: Grads = [];
    const first = (): Tensor => (found = compute()).find((g) => g !== null) as Tensor;
    observed(profile, `${kind.event}_backward`, given, first);
    return found;
  }

  private byKernel(backend: Backend, w: Tensor, states: Tensor, [dy, dc]: Grads): Grads {
    const { kind, size, layout, needs } = this;
    const { steps, rows, hidden } = size;
    const [toPrepared, toWeights, ...rest] = needs;
    const toStart = rest.slice(0, layout.states);
    const made = gatesLayoutOf(kind.recurrence, size, toStart.includes(true));
    const shape = [steps * rows, layout.gates * hidden] as const;
    const inputs = { states, w, ...(dy ? { dy } : {}), ...(dc ? { dc } : {}) };
    const attrs = { ...attrsOf(kind, size), starts: Number(toStart.includes(true)) };
    const alone = made.size === made.all;
    const all = runKernel(backend, `${kind.kernels}Gates`, inputs, attrs, 'float32', alone ? shape : [made.size]);
    const gates = alone ? all : copied(backend, all, 0, shape);
    const products = made.products === 0 ? gates : copied(backend, all, made.products, shape);
    const before = (): Tensor => copied(backend, states, layout.before, [steps * rows, hidden]);
    return [
      toPrepared === true ? gates : null,
      toWeights === true ? matmul(products.transpose(0, 1), before()) : null,
      ...toStart.map((to, k) => (to ? copied(backend, all, made.start[k] as number, [rows, hidden]) : null)),
      ...rest.slice(layout.states).map((to) => (to ? products.sum(0) : null)),
    ];
  }

  /** By a graph of its own, which ends at the operands: what is behind them is the outer pass's. */
  private byPlain(operands: readonly Tensor[], grads: Grads): Grads {
    const ends = operands.map(() => new End());
    const own = operands.map((t, i) => (this.needs[i] === true ? (ends[i] as End).before(t) : t.detach()));
    const results = enableGrad(() => this.plain(named(own, this.layout.states)));
    const given = grads.flatMap((g, i) => (g === null ? [] : [[results[i] as Tensor, g] as const]));
    const found = grad(
      given.map(([result]) => result),
      own.filter((_, i) => this.needs[i]),
      { gradOutputs: given.map(([, g]) => g), createGraph: ambient().gradMode, allowUnused: true },
    );
    operands.forEach((t, i) => (ends[i] as End).goOnTo(t));
    return this.needs.map((needed) => (needed ? (found.shift() ?? null) : null));
  }

  override release(): void {
    for (const one of this.saved?.operands ?? []) one.release();
    this.saved?.states.release();
    this.saved = undefined;
  }
}

/** The end of a graph, which is joined to another later. */
class End extends FunctionNode {
  constructor() {
    super('AliasBackward0', [null]);
  }

  /** The values of `t` as what this gives gradients of. */
  before(t: Tensor): Tensor {
    const own = t.detach();
    setHistory([own], this);
    return own;
  }

  goOnTo(t: Tensor): void {
    this.nextEdges = [gradEdge(t)];
  }

  protected override backward(grads: Grads): Grads {
    return grads;
  }
}
