/** @file Calls as those see them who watch an agent. */
import type { WorkerInfo } from './worker-info.ts';

/** How the program made a call, and of what. */
export interface CallLabel {
  readonly kind: 'sync' | 'async' | 'remote' | 'oneway' | 'stream' | 'other';
  /** The name of the definition, 'Class.method' for a method of a remote value. */
  readonly name: string;
}

/** An outgoing call, as those who watch see it. The record is the call's own: it is not to be kept. */
export interface ObservedCall {
  /** This side's number for it. */
  readonly id: number;
  readonly peer: { readonly worker: WorkerInfo };
  readonly label: CallLabel;
  /** On the agent's monotonic clock, in milliseconds. */
  readonly startedAt: number;
}

/** An incoming call, likewise. */
export interface ObservedHandler {
  /** The caller's number for it; 0 for one that wants no answer. */
  readonly id: number;
  readonly peer: { readonly worker: WorkerInfo };
  readonly arrivedAt: number;
  /** What is called; undefined while that is not known. */
  readonly definition: { readonly name: string } | undefined;
}

/**
 * Sees calls begin and end, on both sides. It is called on the way of every call: it has no business to throw, must not keep the records it is
 * given, and never sees arguments or results.
 */
export interface CallObserver {
  /** An outgoing call was opened. */
  called?(call: ObservedCall): void;
  /** It is over; `error` is undefined when it succeeded. */
  settled?(call: ObservedCall, error: unknown): void;
  /** The handler of an incoming call begins. */
  handling?(call: ObservedHandler): void;
  /** Its handler is over, or it was refused or given up before that began; `error` is undefined when it succeeded. */
  handled?(call: ObservedHandler, error: unknown): void;
}
