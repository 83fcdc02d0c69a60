/** @file One layer of an LSTM over a sequence as one operation, as on PyTorch's CPUs: in single precision, where the backend has kernels for it. */
import { ambient } from '../ambient.ts';
import { programStack } from '../autograd/anomaly.ts';
import { grad } from '../autograd/backward/engine.ts';
import { FunctionNode, savedIsFreed } from '../autograd/node.ts';
import { enableGrad, gradEdge, requiresGrad, SavedTensor, setHistory } from '../autograd/record.ts';
import type { Backend } from '../backends/backend.ts';
import { observed } from '../observed.ts';
import { backendFor, runKernel } from '../ops/kernels.ts';
import { matmul } from '../ops/matmul.ts';
import { sweep } from '../scope.ts';
import type { Grads, Tensor } from '../tensor.ts';

/**
 * What the operation reads: what inputs and biases give the gates [steps · rows, 4 hidden], outputs and cells to begin with [rows, hidden], and
 * the weights of the outputs [4 hidden, hidden].
 */
export type Operands = readonly [prepared: Tensor, h: Tensor, c: Tensor, weights: Tensor];

/** All outputs [steps · rows, hidden], and the last cells [rows, hidden]. */
export type Results = readonly [outputs: Tensor, cells: Tensor];

/** Its name in profiles, PyTorch's. */
export const LSTM_EVENT = 'aten::mkldnn_rnn_layer';

export interface Way {
  readonly steps: number;
  /** Sequences side by side. */
  readonly rows: number;
  readonly hidden: number;
  /** From the last step to the first. */
  readonly backwards: boolean;
}

/** The backend that has the operation, where that pays and `tensors` are such as it takes. */
export function lstmBackend(tensors: readonly Tensor[], { steps, rows, hidden }: Way): Backend | undefined {
  const work = 4 * steps * rows * hidden * hidden;
  if (work === 0 || tensors.some((t) => t.dtype !== 'float32' || t.device !== 'cpu')) return undefined;
  return backendFor('LstmStates', 'matmul', work);
}

const attrsOf = ({ steps, rows, hidden, backwards }: Way): Record<string, number> => ({
  steps,
  rows,
  hidden,
  backwards: backwards ? 1 : 0,
});

/**
 * The layer, recorded if gradients are wanted. Derivatives of its derivatives are those of `plain`, which is the same made of smaller
 * operations.
 */
export function lstmLayer(
  backend: Backend,
  operands: Operands,
  way: Way,
  plain: (operands: Operands) => Results,
): Results {
  const [x, h, c, w] = operands;
  const { steps, rows, hidden, backwards } = way;
  return sweep(() => {
    const state = rows * hidden;
    const size = (2 * (steps + 1) + 4 * steps) * state;
    const states = runKernel(backend, 'LstmStates', { x, h, c, w }, attrsOf(way), 'float32', [size]);
    // Copies, which do not hold all of the states.
    const outputs = copied(backend, states, backwards ? 0 : state, [steps * rows, hidden]);
    const lastCells = (steps + 1 + (backwards ? 0 : steps)) * state;
    const results = [outputs, copied(backend, states, lastCells, [rows, hidden])] as const;
    if (ambient().gradMode && requiresGrad(operands)) setHistory(results, new LstmNode(operands, states, way, plain));
    return results;
  });
}

/** Some of the elements of `t`, which lie together. */
function copied(backend: Backend, t: Tensor, offset: number, shape: readonly [number, number]): Tensor {
  const attrs = { offset, sizes: [1, 1, 1, shape[0] * shape[1]], strides: [0, 0, 0, 1] };
  return runKernel(backend, 'CopyStrided', { x: t }, attrs, 'float32', shape);
}

class LstmNode extends FunctionNode {
  private readonly way: Way;
  private readonly plain: (operands: Operands) => Results;
  private readonly needs: readonly boolean[];
  private saved: { readonly operands: readonly SavedTensor[]; readonly states: SavedTensor } | undefined;

  constructor(operands: Operands, states: Tensor, way: Way, plain: (operands: Operands) => Results) {
    super('MkldnnRnnLayerBackward0', operands.map(gradEdge), 2);
    this.way = way;
    this.plain = plain;
    this.needs = operands.map((t) => t.requiresGrad);
    const save = (t: Tensor): SavedTensor => new SavedTensor(t, this.name, false);
    this.saved = { operands: operands.map(save), states: save(states) };
    if (ambient().anomaly) this.origin = programStack(`forward call of ${this.name}`);
  }

  protected override backward(grads: Grads): Grads {
    const { saved, way } = this;
    if (saved === undefined) throw savedIsFreed();
    const given = grads.filter((g) => g !== null);
    if (given.length === 0) return this.needs.map(() => null);
    const operands = saved.operands.map((one) => one.unpack(this)) as unknown as Operands;
    const { gradMode, profile } = ambient();
    const backend = gradMode ? undefined : lstmBackend(given, way);
    if (backend === undefined) return this.byPlain(operands, grads);
    const compute = (): Grads => this.byKernel(backend, operands[3], saved.states.unpack(this), grads);
    if (profile === undefined) return compute();
    let found: Grads = [];
    observed(profile, `${LSTM_EVENT}_backward`, given, () => (found = compute()).find((g) => g !== null) as Tensor);
    return found;
  }

  private byKernel(backend: Backend, weights: Tensor, states: Tensor, [dy, dc]: Grads): Grads {
    const { steps, rows, hidden, backwards } = this.way;
    const [toPrepared, toH, toC, toWeights] = this.needs;
    const state = rows * hidden;
    const starts = toH === true || toC === true;
    const inputs = { states, w: weights, ...(dy ? { dy } : {}), ...(dc ? { dc } : {}) };
    const [all, shape] = [4 * steps * state, [steps * rows, 4 * hidden] as const];
    const attrs = { ...attrsOf(this.way), starts: starts ? 1 : 0 };
    const made = runKernel(backend, 'LstmGates', inputs, attrs, 'float32', starts ? [all + 2 * state] : shape);
    const gates = starts ? copied(backend, made, 0, shape) : made;
    const start = (at: number): Tensor => copied(backend, made, all + at * state, [rows, hidden]);
    const before = (): Tensor => copied(backend, states, backwards ? state : 0, [steps * rows, hidden]);
    return [
      toPrepared === true ? gates : null,
      toH === true ? start(0) : null,
      toC === true ? start(1) : null,
      toWeights === true ? matmul(gates.transpose(0, 1), before()) : null,
    ];
  }

  /** By a graph of its own, which ends at the operands: what is behind them is the outer pass's. */
  private byPlain(operands: Operands, grads: Grads): Grads {
    const ends = operands.map(() => new End());
    const own = operands.map((t, i) => (this.needs[i] === true ? (ends[i] as End).before(t) : t.detach()));
    const results = enableGrad(() => this.plain(own as unknown as Operands));
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
