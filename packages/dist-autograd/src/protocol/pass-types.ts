/** @file What a backward pass is made of, for those that run it and those it runs on. */
import type { PassId } from './ids.ts';

/** How a pass failed. */
export interface Failure {
  /** The code of an RpcError, or empty when a function of the graph threw. */
  readonly code: string;
  /** The class that was thrown. */
  readonly name: string;
  readonly text: string;
  /** The worker it is about. */
  readonly peer?: { readonly id: number; readonly name: string } | undefined;
  /** What was thrown, on the worker where it was. */
  readonly cause?: unknown;
}

/** A receive function: where its gradients go. */
export interface Target {
  readonly to: number;
  readonly message: number;
}

/** A receive function that was walked to. */
export interface Reached extends Target {
  /** The send functions that its gradients come to beyond the one they go to; undefined where its sender did not say. */
  readonly reach?: readonly Target[] | undefined;
}

/** What leaves a worker by one receive function: gradients on their way to the worker that sent the forward message. */
export interface Fired<G> extends Target {
  readonly grads: G;
  /** How many tensors that is. */
  readonly tensors: number;
}

/** The part of the graph on one worker, for one pass. */
export interface LocalGraph<G> {
  /** Walks on from send functions, or from the roots, and returns the receive functions met for the first time. */
  walk(starts: readonly number[] | 'roots'): readonly Reached[];
  /** Counts what each function waits for, over all that was walked. */
  seal(): void;
  /** Takes gradients for a send function, or starts the roots, and returns what leaves this worker by it, which is the caller's. */
  run(start: { readonly message: number; readonly grads: G } | 'roots'): readonly Fired<G>[];
  /** Adds the captured gradients to the context. */
  commit(): void;
  /** Drops everything. */
  discard(failure?: Failure): void;
}

/** What a pass is told at its start. */
export interface PassOptions {
  readonly retainGraph: boolean;
  readonly fast: boolean;
  /** All send functions that the roots reach, where they are known at the start: nobody has to be asked. */
  readonly plan?: readonly Target[] | undefined;
  /** Earlier passes of the origin in this context that failed: all others before this one succeeded. */
  readonly failed: readonly number[];
}

/**
 * Where the outcome of an incoming message goes; each is answered exactly once. Gradients for whoever sent the message may go along, with
 * which they are handed over.
 */
export type Reply = (failure?: Failure, back?: readonly Fired<unknown>[]) => void;

/** Who engaged this worker. */
export interface Parent {
  readonly worker: number;
  readonly reply: Reply;
}

/** What a pass does to the world. Nothing here may call back synchronously. */
export interface PassPort<G, C> {
  discover(
    to: number,
    token: number,
    context: C,
    pass: PassId,
    messages: readonly number[],
    options: PassOptions,
  ): void;
  /** Takes the gradients over. */
  backwardTo(fired: Fired<G>, token: number, context: C, pass: PassId, options: PassOptions): void;
  /** Frees gradients that nobody wants any more. */
  drop?(grads: G): void;
  abort(to: number, context: C, pass: PassId, failure: Failure): void;
  /** Opens the local graph; `roots` only at the origin. */
  open(context: C, pass: PassId, options: PassOptions, roots: unknown): LocalGraph<G>;
  /** Takes back what a pass added to the context here; returns whether there was anything. */
  rollback(context: C, pass: PassId, failure: Failure): boolean;
  /** A pass in the context failed before it came here. */
  missed?(context: C, failure: Failure): void;
  /**
   * This worker's part has run. Begins what must be done with its gradients before they count, for which the acknowledgement or the
   * failure of `token` is given later; false when there is nothing.
   */
  finish?(token: number, context: C, graph: LocalGraph<G>): boolean;
  /** The pass ended, at its origin. */
  settled(context: C, pass: PassId, failure?: Failure): void;
}

/** One pass at work in one context on one worker. */
export interface PassState {
  readonly id: PassId;
  readonly origin: boolean;
  readonly graph: LocalGraph<never>;
  options: PassOptions;
  phase: 'discover' | 'execute';
  /** Everything has run here, and `finish` has been asked. */
  finishing: boolean;
  /** Marked send functions that have not run. */
  readonly left: Set<number>;
  readonly marked: Set<number>;
  /** Messages sent and not acknowledged. */
  deficit: number;
  /** Who engaged this worker. */
  parent: Parent | undefined;
  /** Gradients for the parent that fired in the current event: they go with the answer when it can be given at the end of it. */
  back: Fired<unknown>[];
  /** Receive functions that were told. */
  readonly told: Map<number, Set<number>>;
}
