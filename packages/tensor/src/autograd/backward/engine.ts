/** @file The backward pass: runs functions when all gradients for their outputs have arrived, latest made first. */
import { checkArguments } from '../../arguments.ts';
import { ambient, runWith } from '../../ambient.ts';
import { AutogradError } from '../../errors.ts';
import { onesLike } from '../../creation.ts';
import { addToHeld, sumTo } from '../../ops/gradients.ts';
import { sweep } from '../../scope.ts';
import { expandsTo, sameShape } from '../../shape.ts';
import { Tensor, type AutogradMeta, type Edge, type Node } from '../../tensor.ts';
import { kindOf } from '../../given.ts';
import { AccumulateGrad } from '../node.ts';
import { gradEdge } from '../record.ts';
import { checkOptionNames, optionNames } from '../../option-names.ts';

/** What a backward pass keeps and records. */
export interface BackwardOptions {
  /** Keep saved values, so that the graph can be run again. @default createGraph */
  retainGraph?: boolean;
  /** Record the pass itself, for higher derivatives. @default false */
  createGraph?: boolean;
}

const BACKWARD_OPTIONS = optionNames<BackwardOptions>()('retainGraph createGraph');

/** Adds the gradients of `roots` into the leaves. A missing root gradient means one, for scalars. */
export function runBackward(
  roots: readonly Tensor[],
  gradients: readonly (Tensor | null)[] = [],
  options: BackwardOptions = {},
): void {
  checkOptionNames(options, BACKWARD_OPTIONS, 'backward()');
  checkArguments('runBackward', [roots, gradients, options]);
  const edges = rootEdges(roots);
  const record = options.createGraph ?? false;
  sweep(() => {
    const seeds = seedsOf(roots, gradients);
    runWith({ gradMode: record }, () => new Pass(edges, seeds, options.retainGraph ?? record).run());
  });
}

/** `runBackward` of one root. */
export function backward(root: Tensor, gradient?: Tensor, options?: BackwardOptions): void {
  if (gradient !== undefined && gradient !== null && !(gradient instanceof Tensor))
    throw new TypeError(
      `backward() takes a gradient, a tensor, and then options, as in backward(undefined, { retainGraph: true }); got ${kindOf(gradient)}`,
    );
  runBackward([root], [gradient ?? null], options);
}

/** What `grad` may be told: where gradients begin, and what of the graph is kept. */
export interface GradOptions extends BackwardOptions {
  /** The gradient that each output begins with, of its shape; null for a scalar's 1. @default 1 for every output, which are scalars then */
  gradOutputs?: readonly (Tensor | null)[];
  /** Answer null for inputs that the outputs do not depend on, instead of throwing. @default false */
  allowUnused?: boolean;
}

const GRAD_OPTIONS = optionNames<GradOptions>()('retainGraph createGraph gradOutputs allowUnused');

/**
 * The gradients of `outputs` with respect to `inputs` (leaves or not); no `.grad` is touched.
 * @param outputs what is differentiated: scalars, or tensors with `gradOutputs`
 * @param inputs what by
 * @param options `gradOutputs`, `retainGraph`, `createGraph`, `allowUnused`
 * @throws AutogradError for an input that the outputs do not depend on, unless `allowUnused`, and for a graph that was freed.
 * @example
 * ```ts
 * const x = tensor([3], { requiresGrad: true });
 * const [first] = grad([x.pow(3).sum()], [x], { createGraph: true });
 * const [second] = grad([first!.sum()], [x]);
 * console.log(first?.toArray(), second?.toArray()); // [ 27 ] [ 18 ]
 * ```
 */
export function grad(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): (Tensor | null)[] {
  checkOptionNames(options, GRAD_OPTIONS, 'grad()');
  checkArguments('grad', [outputs, inputs, options]);
  const edges = rootEdges(outputs);
  const record = options.createGraph ?? false;
  const wanted = inputs.map((t) => {
    const edge = gradEdge(t);
    if (edge === null) throw new AutogradError('One of the differentiated Tensors does not require grad');
    return edge;
  });
  return sweep(() => {
    const seeds = seedsOf(outputs, options.gradOutputs ?? []);
    const capture = new Capture(wanted);
    runWith({ gradMode: record }, () => new Pass(edges, seeds, options.retainGraph ?? record, capture).run());
    return capture.values.map((value) => {
      if (value === null && options.allowUnused !== true) {
        throw new AutogradError(
          'One of the differentiated Tensors appears to not have been used in the graph. Set allowUnused: true if this is the desired behavior.',
        );
      }
      return value;
    });
  });
}

function rootEdges(roots: readonly Tensor[]): Edge[] {
  return roots.map((root, i) => {
    // Its graph would still be there; a disposed handle is no way to it.
    void root.storage;
    const edge = gradEdge(root);
    if (edge === null)
      throw new AutogradError(`element ${i} of tensors does not require grad and does not have a grad_fn`);
    return edge;
  });
}

function seedsOf(roots: readonly Tensor[], gradients: readonly (Tensor | null)[]): Tensor[] {
  if (gradients.length > 0 && gradients.length !== roots.length)
    throw new AutogradError(`got ${roots.length} tensors and ${gradients.length} gradients`);
  return roots.map((root, i) => {
    const given = gradients[i] ?? null;
    if (given === null) {
      if (root.size !== 1) throw new AutogradError('grad can be implicitly created only for scalar outputs');
      if (root.dtype === 'complex64') {
        throw new AutogradError('grad can be implicitly created only for real scalar outputs but got complex64');
      }
      return onesLike(root);
    }
    if (!sameShape(given.shape, root.shape)) {
      throw new AutogradError(
        `Mismatch in shape: grad_output[${i}] has a shape of [${given.shape.join(', ')}] and output[${i}] has a shape of [${root.shape.join(', ')}].`,
      );
    }
    return given;
  });
}

/** Gradients wanted at given edges instead of in leaves. */
class Capture {
  readonly values: (Tensor | null)[];
  private readonly at = new Map<Node, number[]>();
  private readonly edges: readonly Edge[];

  constructor(edges: readonly Edge[]) {
    this.edges = edges;
    this.values = edges.map(() => null);
    edges.forEach(({ node }, i) => {
      const list = this.at.get(node);
      if (list === undefined) this.at.set(node, [i]);
      else list.push(i);
    });
  }

  has(node: Node): boolean {
    return this.at.has(node);
  }

  /** The functions that must run: those from which an edge leads towards a wanted one. */
  needed(dependencies: ReadonlyMap<Node, number>): Set<Node> {
    const found = new Set<Node>();
    // Made earlier means nearer to the leaves; the leaves themselves never run.
    const order = [...dependencies.keys()].sort((a, b) => a.sequence - b.sequence);
    for (const node of order) {
      if (node.nextEdges.some((e) => e !== null && (this.at.has(e.node) || found.has(e.node)))) found.add(node);
    }
    return found;
  }

  take(node: Node, grads: readonly (Tensor | null)[]): void {
    for (const i of this.at.get(node) ?? []) this.values[i] = grads[(this.edges[i] as Edge).inputIndex] ?? null;
  }
}

/** Counts, for every function reachable from `roots`, how many edges lead to it. */
function countDependencies(roots: Iterable<Node>): Map<Node, number> {
  const counts = new Map<Node, number>();
  const pending: Node[] = [];
  for (const root of roots) {
    if (counts.has(root)) continue;
    counts.set(root, 0);
    pending.push(root);
  }
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    for (const edge of node.nextEdges) {
      if (edge === null) continue;
      const count = counts.get(edge.node);
      if (count === undefined) pending.push(edge.node);
      counts.set(edge.node, (count ?? 0) + 1);
    }
  }
  return counts;
}

/** One run over a graph. */
class Pass {
  private readonly dependencies: Map<Node, number>;
  private readonly buffers = new Map<Node, (Tensor | null)[]>();
  private readonly ready = new ReadyQueue();
  /** How many buffers wait with each gradient. */
  private readonly waiting = new Map<Tensor, number>();
  private readonly retain: boolean;
  private readonly capture: Capture | undefined;

  constructor(roots: readonly Edge[], seeds: readonly Tensor[], retain: boolean, capture?: Capture) {
    this.retain = retain;
    this.capture = capture;
    this.dependencies = countDependencies(roots.map((edge) => edge.node));
    roots.forEach((edge, i) => this.deliver(edge, seeds[i] as Tensor));
    for (const { node } of roots) if (this.dependencies.get(node) === 0) this.ready.push(node);
  }

  run(): void {
    const needed = this.capture?.needed(this.dependencies);
    for (let node = this.ready.pop(); node !== undefined; node = this.ready.pop()) {
      const grads = this.buffers.get(node) ?? [];
      this.buffers.delete(node);
      this.step(node, grads, needed);
    }
  }

  private step(node: Node, grads: readonly (Tensor | null)[], needed: ReadonlySet<Node> | undefined): void {
    const { capture } = this;
    const wanted = capture?.has(node) === true;
    const given = wanted ? node.hooked(grads) : grads;
    if (wanted) capture.take(node, given);
    const stop = needed !== undefined && !needed.has(node);
    const silent = stop || grads.every((g) => g === null || g === undefined);
    const out = silent ? [] : sweep(() => this.evaluate(node, given, wanted));
    node.nextEdges.forEach((edge, i) => {
      if (edge === null) return;
      const value = out[i];
      if (value !== null && value !== undefined) this.deliver(edge, value, node, i);
      const left = (this.dependencies.get(edge.node) as number) - 1;
      this.dependencies.set(edge.node, left);
      if (left === 0) this.ready.push(edge.node);
    });
    for (const g of grads) if (g !== null && g !== undefined) this.consumed(g);
  }

  /** Frees a gradient at once when no other buffer waits with it and only this pass knows it. */
  private consumed(g: Tensor): void {
    const left = (this.waiting.get(g) ?? 1) - 1;
    if (left > 0) {
      this.waiting.set(g, left);
      return;
    }
    this.waiting.delete(g);
    if (g.temporary && this.capture?.values.includes(g) !== true) g.release();
  }

  private evaluate(node: Node, grads: readonly (Tensor | null)[], hooked: boolean): readonly (Tensor | null)[] {
    const anomaly = ambient().anomaly;
    try {
      const out = hooked ? node.applyHooked(grads) : node.apply(grads);
      if (anomaly) checkAnomaly(node, out);
      if (!this.retain) node.release();
      return out;
    } catch (error) {
      if (anomaly && node.origin !== undefined && error instanceof Error && error.cause === undefined) {
        error.cause = new Error(`Traceback of forward call that caused the error:\n${node.origin}`);
      }
      throw error;
    }
  }

  /** Adds a gradient to those that wait for a function. */
  private deliver(edge: Edge, value: Tensor, from?: Node, at?: number): void {
    const { node, inputIndex } = edge;
    let buffer = this.buffers.get(node);
    if (buffer === undefined) this.buffers.set(node, (buffer = []));
    const before = buffer[inputIndex] ?? null;
    const fitted = fit(value, node, inputIndex, from, at);
    const total = before === null ? fitted : addToHeld(before, fitted);
    buffer[inputIndex] = total;
    this.waiting.set(total, (this.waiting.get(total) ?? 0) + 1);
    if (before !== null) this.consumed(before);
  }
}

/**
 * A gradient in the shape and dtype of output `index` of `node`, to which it belongs; throws where neither a sum nor a cast gets there.
 * `from` has returned it, in place `at`.
 */
export function fit(value: Tensor, node: Node, index: number, from?: Node, at?: number): Tensor {
  const info = node.outputs[index];
  if (info === undefined) return value;
  let out = value;
  if (!sameShape(out.shape, info.shape)) {
    if (!expandsTo(info.shape, out.shape)) {
      const what =
        from === undefined
          ? `output ${index} of ${node.name} was given`
          : `Function ${from.name} returned an invalid gradient at index ${at} - got`;
      throw new AutogradError(
        `${what} [${out.shape.join(', ')}] but expected shape compatible with [${info.shape.join(', ')}]`,
      );
    }
    out = sumTo(out, info.shape);
  }
  return out.dtype === info.dtype ? out : out.to(info.dtype);
}

function checkAnomaly(node: Node, out: readonly (Tensor | null)[]): void {
  out.forEach((g, i) => {
    if (g === null || g.sparse !== undefined || !g.isNaN().any().item()) return;
    throw new AutogradError(`Function '${node.name}' returned nan values in its ${i}th output.`);
  });
}

/** Functions whose gradients are complete: the latest made comes first. */
class ReadyQueue {
  private readonly heap: Node[] = [];

  push(node: Node): void {
    const { heap } = this;
    let i = heap.push(node) - 1;
    while (i > 0) {
      const up = (i - 1) >> 1;
      if ((heap[up] as Node).sequence >= node.sequence) break;
      heap[i] = heap[up] as Node;
      i = up;
    }
    heap[i] = node;
  }

  pop(): Node | undefined {
    const { heap } = this;
    const top = heap[0];
    const last = heap.pop();
    if (heap.length === 0 || last === undefined) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && (heap[child + 1] as Node).sequence > (heap[child] as Node).sequence) child++;
      if ((heap[child] as Node).sequence <= last.sequence) break;
      heap[i] = heap[child] as Node;
      i = child;
    }
    heap[i] = last;
    return top;
  }
}

/** Calls `hook` with each gradient computed for `t`; returns how to remove it. */
export function registerHook(t: Tensor, hook: (grad: Tensor) => Tensor | void): () => void {
  const edge = gradEdge(t);
  if (edge === null) throw new AutogradError("cannot register a hook on a tensor that doesn't require gradient");
  const meta = t.meta as AutogradMeta;
  const hooks = (meta.hooks ??= new Set());
  if (!(edge.node instanceof AccumulateGrad)) edge.node.attachHooks(edge.inputIndex, hooks);
  hooks.add(hook);
  return () => hooks.delete(hook);
}

/** Makes backward passes add the gradient of an inner tensor, as its hooks leave it, to its `.grad`. */
export function retainGrad(t: Tensor): void {
  const edge = gradEdge(t);
  if (edge === null) throw new AutogradError("can't retainGrad on a tensor that has requiresGrad: false");
  if (t.isLeaf) return;
  const meta = t.meta as AutogradMeta;
  meta.retains = true;
  edge.node.retainIn(edge.inputIndex, meta);
}
