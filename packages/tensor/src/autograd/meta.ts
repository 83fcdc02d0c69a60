/** @file The gradient state of a variable, shared by all its handles. */
import type { DType } from '../dtype.ts';
import type { Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import type { AccumulateGrad, Node } from './node.ts';

/** A step of the recorded graph, as programs see it. */
export interface GradFn {
  readonly name: string;
  readonly nextFunctions: readonly (GradFn | null)[];
}

/** May look at a gradient, or replace it by returning another. */
export type GradHook = (grad: Tensor) => Tensor | void;

/** How a view was made: recorded like any operation, without recording, as one of several, or inside a custom function. */
export type ViewOrigin = 'recorded' | 'noGrad' | 'several' | 'custom';

/** How a view lies in its base; strides and offset are in elements of the storage they share. */
export interface ViewInfo {
  readonly base: AutogradMeta;
  /** complex64 where the view is of its real or imaginary parts. */
  readonly baseDType: DType;
  readonly baseShape: Shape;
  readonly baseStrides: Shape;
  readonly baseOffset: number;
  /** The base's `generation` when `node` was made: an in-place change of the base makes it stale. */
  generation: number;
  /** The storage's version then; changes that were not recorded count too. */
  version: number;
  /** All but 'recorded' may not be changed in place while recording, nor used after such a change. */
  readonly origin: ViewOrigin;
}

export interface AutogradMeta {
  requiresGrad: boolean;
  grad: Tensor | null;
  /** Whether the program has asked for `grad`, and may hold it. */
  gradSeen: boolean;
  node: Node | undefined;
  outputIndex: number;
  accumulator: AccumulateGrad | undefined;
  hooks: Set<GradHook> | undefined;
  view: ViewInfo | undefined;
  /** Counts in-place changes that were recorded. */
  generation: number;
}
