/** @file The gradients of one context on one worker, by leaf; the last pass can be taken back. */
import type { Tensor } from '@backwire/tensor';
import { AccumulateGrad, addGradients, gradEdge, untracked } from '@backwire/tensor/internal';

/** Gradients keyed by autograd leaf. */
export class GradientStore {
  private readonly byLeaf = new Map<AccumulateGrad, Tensor>();
  /** What the leaves of the last pass had before it. */
  private before: Map<AccumulateGrad, Tensor | undefined> = new Map();

  get size(): number {
    return this.byLeaf.size;
  }

  /** Adds what one pass captured, out of place; takes the tensors over. */
  commit(captured: ReadonlyMap<AccumulateGrad, Tensor>): void {
    this.forget();
    for (const [leaf, grad] of captured) {
      const old = this.byLeaf.get(leaf);
      this.before.set(leaf, old);
      this.byLeaf.set(leaf, old === undefined ? grad : untracked(() => addGradients(old, grad)));
      if (old !== undefined) grad.dispose();
    }
  }

  /** Takes the last commit back. */
  rollback(): void {
    for (const [leaf, old] of this.before) {
      this.byLeaf.get(leaf)?.dispose();
      if (old === undefined) this.byLeaf.delete(leaf);
      else this.byLeaf.set(leaf, old);
    }
    this.before = new Map();
  }

  /** Frees everything. */
  dispose(): void {
    this.forget();
    for (const grad of this.byLeaf.values()) grad.dispose();
    this.byLeaf.clear();
  }

  get(leaf: AccumulateGrad): Tensor | undefined {
    return this.byLeaf.get(leaf);
  }

  /** Handles of the caller's own. */
  snapshot(): Gradients {
    return new GradientMap(new Map([...this.byLeaf].map(([leaf, grad]) => [leaf, grad.detach()])));
  }

  private forget(): void {
    for (const old of this.before.values()) old?.dispose();
    this.before = new Map();
  }
}

/** Keyed by autograd leaf, not by handle; the tensors are the caller's and outlive the context. */
export interface Gradients extends Iterable<readonly [Tensor, Tensor]>, Disposable {
  /** The gradient of a leaf, given by any handle of it; undefined where no pass reached it. */
  get(leaf: Tensor): Tensor | undefined;
  readonly size: number;
}

class GradientMap implements Gradients {
  private readonly byLeaf: ReadonlyMap<AccumulateGrad, Tensor>;

  constructor(byLeaf: ReadonlyMap<AccumulateGrad, Tensor>) {
    this.byLeaf = byLeaf;
  }

  get size(): number {
    return this.byLeaf.size;
  }

  get(leaf: Tensor): Tensor | undefined {
    const node = gradEdge(leaf)?.node;
    return node instanceof AccumulateGrad ? this.byLeaf.get(node) : undefined;
  }

  *[Symbol.iterator](): IterableIterator<readonly [Tensor, Tensor]> {
    for (const [leaf, grad] of this.byLeaf) yield [leaf.variable, grad] as const;
  }

  [Symbol.dispose](): void {
    for (const grad of this.byLeaf.values()) grad.dispose();
  }
}
