/** @file Runs this worker's part of one backward pass over the recorded graph, capturing instead of accumulating. */
import { onesLike, type Tensor } from '@backwire/tensor';
import {
  AccumulateGrad,
  ambient,
  fitGradient,
  gradEdge,
  type Node,
  runClean,
  shareHandle,
  sweep,
  untracked,
  type Edge,
} from '@backwire/tensor/internal';
import { InvariantError } from '@backwire/rpc/internal';
import type { PassId } from '../protocol/ids.ts';
import { compareKeys } from '../protocol/order-key.ts';
import { PassError, strayTensor } from '../protocol/pass-failures.ts';
import type { Failure, Fired, LocalGraph, Reached } from '../protocol/pass-types.ts';
import { errorOf } from '../failure.ts';
import { RecvRpcBackward, type SendRpcBackward, type Grads } from './functions.ts';
import type { GradientStore } from './gradients.ts';
import type { Replica, Replicas } from './replicas.ts';
import { Inputs } from './ordered-sum.ts';

/** What a task needs of its context. */
export interface TaskContext {
  readonly id: bigint;
  readonly sends: ReadonlyMap<number, SendRpcBackward>;
  readonly gradients: GradientStore;
  readonly replicas?: Replicas;
}

/** Everything the pass knows of one function. */
interface Place {
  readonly inputs: Inputs;
  /** For each next edge the rank of its contribution at the target. */
  readonly ranks: number[];
}

/** The local graph of a pass: see `LocalGraph`. Gradients are summed in an order given by the graph and the causal paths alone. */
export class GraphTask implements LocalGraph<Grads> {
  private readonly context: TaskContext;
  private readonly pass: PassId;
  private readonly retain: boolean;
  private readonly roots: readonly Tensor[];
  private readonly isReleased: (contextId: bigint) => boolean;
  private readonly seen = new Set<Node>();
  private readonly starts: SendRpcBackward[] = [];
  private readonly places = new Map<Node, Place>();
  /** Whether all that the pass reaches here is known. */
  private sealed = false;
  private readonly rootRanks: number[] = [];
  private readonly captured = new Map<AccumulateGrad, Tensor>();
  /** Leaves captured in the run that is going on: what they got may still be aliased by its temporaries. */
  private fresh: AccumulateGrad[] = [];
  private readonly partial = new Set<Inputs>();
  private ready: Node[] = [];
  /** The worker's agent, in force in hooks. */
  private readonly agent: object | undefined;
  /** Fires when the pass failed: what is still being combined for it is withdrawn. */
  private over: AbortController | undefined;
  private failed: Error | undefined;
  /** Gradients that wait between two runs; ours to free. */
  private held = new Set<Tensor>();

  constructor(
    context: TaskContext,
    pass: PassId,
    roots: readonly Tensor[],
    retain: boolean,
    isReleased: (contextId: bigint) => boolean,
    agent?: object,
  ) {
    this.agent = agent;
    this.context = context;
    this.pass = pass;
    this.roots = roots;
    this.retain = retain;
    this.isReleased = isReleased;
  }

  walk(starts: readonly number[] | 'roots'): Reached[] {
    const pending: Node[] = [];
    if (starts === 'roots') {
      for (const root of this.roots) pending.push(edgeOf(root).node);
    } else {
      for (const id of starts) pending.push(this.start(id));
    }
    const reached: Reached[] = [];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if (this.seen.has(node)) continue;
      this.seen.add(node);
      if (node instanceof RecvRpcBackward) reached.push(this.target(node));
      for (const edge of node.nextEdges) if (edge !== null) pending.push(edge.node);
    }
    return reached;
  }

  seal(): void {
    // Latest first, as in a pass within one process.
    const order = [...this.starts].sort((a, b) => compareKeys(b.key, a.key));
    const entries: Node[] = [];
    for (const root of this.roots) {
      const { node, inputIndex } = edgeOf(root);
      // A root's gradient is a contribution of its own, before all others.
      this.rootRanks.push(this.place(node).inputs.expect(inputIndex));
      entries.push(node);
    }
    const visited = new Set<Node>();
    for (const node of [...entries, ...order]) this.number(node, visited);
    this.seen.clear();
    this.sealed = true;
  }

  run(start: { readonly message: number; readonly grads: Grads } | 'roots'): Fired<Grads>[] {
    const incoming = start === 'roots' ? [] : start.grads.filter((grad) => grad !== null);
    for (const grad of incoming) this.held.add(grad);
    const before = this.held;
    // No scope or context of the program is in force: what is captured outlives them.
    const { profile } = ambient();
    const fired: Fired<Grads>[] = [];
    const held = new Set<Tensor>();
    runClean({ agent: this.agent, gradMode: false, profile }, () => sweep(() => this.work(start, fired, held)));
    this.held = held;
    const left: Fired<Grads>[] = [];
    for (const { to, message, tensors, grads } of fired) left.push({ to, message, tensors, grads: grads.map(handle) });
    for (const { grads } of fired) for (const grad of grads) if (grad !== null) before.add(grad);
    for (const grad of before) if (!held.has(grad)) grad.release();
    // Not before everything of the run is let go of: nearly every gradient is nobody else's then, and needs no copy.
    for (const leaf of this.fresh.splice(0)) this.keep(leaf, profile);
    return left;
  }

  commit(): void {
    if (this.ready.length > 0) throw new InvariantError('a backward pass ended with functions left to run');
    this.context.gradients.commit(this.pass, this.captured);
    this.context.replicas?.commit(this.pass);
    this.clear();
  }

  discard(failure?: Failure): void {
    const text = 'a backward pass failed before its gradients were combined';
    const cause = failure === undefined ? new Error(text) : errorOf(failure);
    this.context.replicas?.fail(cause, (replica) => this.mayReach(replica));
    this.failed = cause;
    this.over?.abort(cause);
    for (const grad of this.captured.values()) grad.release();
    this.clear();
  }

  /** Replaces what was captured for the parameters of `replica` by what its group makes of it. */
  async combine(replica: Replica): Promise<void> {
    const own = new Map<Tensor, Tensor>();
    for (const parameter of replica.parameters()) {
      const gradient = this.captured.get(leafOf(parameter));
      if (gradient !== undefined) own.set(parameter, gradient);
    }
    // Members that take part in one pass bring values of that pass only; passes of other origins are counted apart.
    const { worker, incarnation, n } = this.pass;
    const tags = { [`backward pass of worker ${worker} (life ${incarnation})`]: n };
    this.over ??= new AbortController();
    if (this.failed !== undefined) this.over.abort(this.failed);
    for (const [parameter, gradient] of await replica.reduceGradients(own, { signal: this.over.signal, tags })) {
      if (this.failed !== undefined) {
        gradient.dispose();
        continue;
      }
      const leaf = leafOf(parameter);
      this.captured.get(leaf)?.dispose();
      this.captured.set(leaf, gradient);
    }
  }

  /** Whether a gradient was captured for any parameter of `replica`. */
  reaches(replica: Replica): boolean {
    return replica.parameters().some((parameter) => this.captured.has(leafOf(parameter)));
  }

  /** Whether the pass would have come to any parameter of `replica`, as far as is known. */
  private mayReach(replica: Replica): boolean {
    if (!this.sealed || this.reaches(replica)) return true;
    return replica.parameters().some((parameter) => this.places.has(leafOf(parameter)));
  }

  private clear(): void {
    for (const grad of this.held) grad.release();
    this.held.clear();
    this.captured.clear();
    this.places.clear();
    this.partial.clear();
    this.seen.clear();
    this.fresh = [];
    this.ready = [];
  }

  private start(id: number): SendRpcBackward {
    const send = this.context.sends.get(id);
    if (send === undefined) throw new InvariantError(`send function ${id} vanished`);
    this.starts.push(send);
    return send;
  }

  private target(node: RecvRpcBackward): Reached {
    if (node.contextId !== this.context.id)
      throw new PassError(strayTensor(node.contextId, this.context.id, this.isReleased(node.contextId)));
    return { to: node.from, message: node.messageId, reach: node.reach };
  }

  private place(node: Node): Place {
    let place = this.places.get(node);
    if (place === undefined) this.places.set(node, (place = { inputs: new Inputs(), ranks: [] }));
    return place;
  }

  /** Ranks the contributions of every edge, depth first from `root` in edge order. */
  private number(root: Node, visited: Set<Node>): void {
    const pending = [root];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if (visited.has(node)) continue;
      visited.add(node);
      const { ranks } = this.place(node);
      const edges = node.nextEdges;
      for (let i = 0; i < edges.length; i++) {
        const edge = edges[i];
        if (edge === null || edge === undefined) continue;
        ranks[i] = this.place(edge.node).inputs.expect(edge.inputIndex);
      }
      for (let i = edges.length - 1; i >= 0; i--) {
        const edge = edges[i];
        if (edge !== null && edge !== undefined && !visited.has(edge.node)) pending.push(edge.node);
      }
    }
  }

  /** Adds to `fired` what leaves, and to `held` what waits for more; returns both kinds of tensors. */
  private work(
    start: { readonly message: number; readonly grads: Grads } | 'roots',
    fired: Fired<Grads>[],
    held: Set<Tensor>,
  ): Tensor[] {
    if (start === 'roots') this.seed();
    else this.feed(start.message, start.grads);
    for (let node = this.ready.pop(); node !== undefined; node = this.ready.pop()) this.step(node, fired);
    for (const inputs of this.partial) for (const grad of inputs.tensors()) held.add(grad);
    const kept = [...held];
    for (const { grads } of fired) for (const grad of grads) if (grad !== null) kept.push(grad);
    return kept;
  }

  private seed(): void {
    this.roots.forEach((root, i) => {
      const { node, inputIndex } = edgeOf(root);
      this.deliver(node, inputIndex, this.rootRanks[i] as number, onesLike(root));
    });
  }

  private feed(message: number, grads: Grads): void {
    const send = this.context.sends.get(message);
    if (send === undefined) throw new InvariantError(`send function ${message} vanished`);
    if (grads.length !== send.inputs) {
      throw new PassError({
        code: 'protocol-error',
        name: 'RpcError',
        text: `${grads.length} gradients for the ${send.inputs} tensors of autograd message ${message}`,
      });
    }
    const fitted = grads.map((grad, i) => (grad === null ? null : fitGradient(grad, send, i)));
    this.spread(
      send,
      observed(send, fitted, () => send.apply(fitted)),
    );
    this.places.delete(send);
  }

  private step(node: Node, fired: Fired<Grads>[]): void {
    const grads = this.place(node).inputs.grads(node.inputs);
    if (node instanceof AccumulateGrad) this.capture(node, grads[0] ?? null);
    else if (node instanceof RecvRpcBackward) {
      const out = observed(node, grads, () => node.hooked(grads));
      const { to, message } = this.target(node);
      fired.push({ to, message, grads: out, tensors: out.filter((grad) => grad !== null).length });
    } else if (grads.every((grad) => grad === null)) this.spread(node, []);
    else {
      const out = observed(node, grads, () => node.apply(grads));
      if (!this.retain) node.release();
      this.spread(node, out);
    }
    this.places.delete(node);
  }

  private spread(node: Node, out: Grads): void {
    const { ranks } = this.place(node);
    node.nextEdges.forEach((edge, i) => {
      if (edge === null) return;
      const value = out[i] ?? null;
      const fitted = value === null ? null : fitGradient(value, edge.node, edge.inputIndex, node, i);
      this.deliver(edge.node, edge.inputIndex, ranks[i] as number, fitted);
    });
  }

  private deliver(node: Node, index: number, rank: number, value: Tensor | null): void {
    const { inputs } = this.place(node);
    if (inputs.add(index, rank, value)) {
      this.partial.delete(inputs);
      this.ready.push(node);
    } else this.partial.add(inputs);
  }

  private capture(leaf: AccumulateGrad, grad: Tensor | null): void {
    if (grad === null) return;
    const final = leaf.runHooks(grad);
    this.captured.set(
      leaf,
      untracked(() => plainHandle(final)),
    );
    this.fresh.push(leaf);
    leaf.runPostHooks([]);
  }

  /** Makes sure that nothing else aliases what a leaf got: a copy takes its place where something does. */
  private keep(leaf: AccumulateGrad, profile: ReturnType<typeof ambient>['profile']): void {
    const grad = this.captured.get(leaf) as Tensor;
    const dense = grad.layout === 'strided';
    if (grad.storage.refs === 1 && (!dense || grad.isContiguous)) return;
    this.captured.set(
      leaf,
      runClean({ gradMode: false, profile }, () => untracked(() => grad.clone())),
    );
    grad.release();
  }
}

/** Runs one function under the eyes of a profile, if there is one. */
function observed(node: Node, grads: Grads, fn: () => Grads): Grads {
  const { profile } = ambient();
  if (profile === undefined) return fn();
  const token = profile.begin(node.name, grads);
  let out: Grads | undefined;
  try {
    out = fn();
    return out;
  } finally {
    profile.end(token, out);
  }
}

/** The leaf that a parameter is; frozen ones have none, and no gradient. */
function leafOf(parameter: Tensor): AccumulateGrad {
  return gradEdge(parameter)?.node as AccumulateGrad;
}

/** The node and input that a root's gradient goes to; roots have been checked. */
function edgeOf(root: Tensor): Edge {
  const edge = gradEdge(root);
  if (edge === null) throw new InvariantError('a root without a gradient function');
  return edge;
}

/** Another handle, outside of the graph. */
function plainHandle(grad: Tensor): Tensor {
  const handle = shareHandle(grad);
  handle.meta = undefined;
  return handle;
}

/** A handle of the receiver's own: what leaves may be held here as well. */
function handle(grad: Tensor | null): Tensor | null {
  return grad === null ? null : untracked(() => shareHandle(grad));
}
