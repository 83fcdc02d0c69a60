/** @file The gradients of one context on one worker, by leaf; what a pass added can be taken back until it is known to have succeeded. */
import { Tensor } from '@backwire/tensor';
import { DISPOSE, AccumulateGrad, addGradients, gradEdge, kindOf, untracked } from '@backwire/tensor/internal';
import { MAX_UNCONFIRMED } from '../limits.ts';
import { sameMember, samePass, type PassId } from '../protocol/ids.ts';

type ByLeaf = Map<AccumulateGrad, Tensor>;

/** What one pass added. */
interface Entry {
  readonly pass: PassId;
  readonly grads: ByLeaf;
}

/** Gradients keyed by autograd leaf. */
export class GradientStore {
  /** The sum of all passes that have succeeded for certain. */
  private readonly base: ByLeaf = new Map();
  /** Passes that are done here and may yet fail elsewhere, in the order they were. */
  private entries: Entry[] = [];
  /** Sums of base and entries, for leaves that were asked for. */
  private readonly sums: ByLeaf = new Map();

  /** Adds what one pass captured; takes the tensors over. */
  commit(pass: PassId, captured: ReadonlyMap<AccumulateGrad, Tensor>): void {
    this.forgetSums();
    this.entries.push({ pass, grads: new Map(captured) });
    while (this.entries.length > MAX_UNCONFIRMED) this.fold(this.entries[0] as Entry);
  }

  /** Takes back what a pass added. Returns false when it added nothing, or has been confirmed. */
  rollback(pass: PassId): boolean {
    const entry = this.entries.find((known) => samePass(known.pass, pass));
    if (entry === undefined) return false;
    this.forgetSums();
    this.remove(entry);
    for (const grad of entry.grads.values()) grad.release();
    return true;
  }

  /** An origin began its next pass: those before have succeeded, but for `failed`. */
  confirm(pass: PassId, failed: readonly number[]): void {
    for (const entry of this.entries.filter((known) => sameMember(known.pass, pass) && known.pass.n < pass.n)) {
      if (failed.includes(entry.pass.n)) this.rollback(entry.pass);
      else if (this.entries[0] === entry) this.fold(entry);
    }
  }

  /** Frees everything. */
  dispose(): void {
    this.forgetSums();
    for (const { grads } of this.entries) for (const grad of grads.values()) grad.release();
    for (const grad of this.base.values()) grad.release();
    this.entries = [];
    this.base.clear();
  }

  /** How many leaves have a gradient. */
  get size(): number {
    return this.leaves().size;
  }

  /** The gradient of a leaf; the store's own. */
  get(leaf: AccumulateGrad): Tensor | undefined {
    const known = this.sums.get(leaf);
    if (known !== undefined) return known;
    const parts = [this.base, ...this.entries.map(({ grads }) => grads)].flatMap((grads) => grads.get(leaf) ?? []);
    const [first, ...rest] = parts;
    if (first === undefined || rest.length === 0) return first;
    const sum = untracked(() => rest.reduce((total, part, i) => sumOf(total, part, i > 0), first));
    this.sums.set(leaf, sum);
    return sum;
  }

  /** Multiplies the gradients of leaves, whichever passes made them. Handles that were given out keep their values. */
  scale(leaves: ReadonlySet<AccumulateGrad>, factor: number): void {
    this.forgetSums();
    for (const grads of [this.base, ...this.entries.map((entry) => entry.grads)]) {
      for (const [leaf, grad] of grads) {
        if (!leaves.has(leaf)) continue;
        grads.set(
          leaf,
          untracked(() => grad.mul(factor)),
        );
        grad.release();
      }
    }
  }

  /** Handles of the caller's own. */
  snapshot(): Gradients {
    const [only] = this.entries;
    const copies: ByLeaf = new Map();
    if (this.base.size === 0 && only !== undefined && this.entries.length === 1) {
      for (const [leaf, grad] of only.grads) copies.set(leaf, grad.detach());
    } else for (const leaf of this.leaves()) copies.set(leaf, (this.get(leaf) as Tensor).detach());
    return new GradientMap(copies);
  }

  private leaves(): Set<AccumulateGrad> {
    return new Set([this.base, ...this.entries.map(({ grads }) => grads)].flatMap((grads) => [...grads.keys()]));
  }

  /** Makes the oldest entry part of the base. */
  private fold(entry: Entry): void {
    this.forgetSums();
    this.remove(entry);
    for (const [leaf, grad] of entry.grads) {
      const old = this.base.get(leaf);
      this.base.set(leaf, old === undefined ? grad : untracked(() => addGradients(old, grad)));
      if (old === undefined) continue;
      old.release();
      grad.release();
    }
  }

  private remove(entry: Entry): void {
    this.entries = this.entries.filter((known) => known !== entry);
  }

  private forgetSums(): void {
    for (const sum of this.sums.values()) sum.release();
    this.sums.clear();
  }
}

/** Frees the running total when it is one. */
function sumOf(total: Tensor, part: Tensor, ours: boolean): Tensor {
  const sum = addGradients(total, part);
  if (ours) total.release();
  return sum;
}

/** Keyed by autograd leaf, not by handle; the tensors are the caller's and outlive the context. */
export interface Gradients extends Iterable<readonly [Tensor, Tensor]>, Disposable {
  /** The gradient of a leaf, given by any handle of it; undefined where no pass reached it. @throws TypeError for what is no tensor. */
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
    if (!(leaf instanceof Tensor)) throw new TypeError(`the gradient of a tensor is asked for, got ${kindOf(leaf)}`);
    const node = gradEdge(leaf)?.node;
    return node instanceof AccumulateGrad ? this.byLeaf.get(node) : undefined;
  }

  *[Symbol.iterator](): IterableIterator<readonly [Tensor, Tensor]> {
    for (const [leaf, grad] of this.byLeaf) yield [leaf.variable, grad] as const;
  }

  [DISPOSE](): void {
    for (const grad of this.byLeaf.values()) grad.dispose();
  }
}
