/** @file Who watches the calls of an agent: nobody most of the time, and then a call pays one comparison. */
import { channelObserver, channelsAreWatched } from './diagnostics-channels.ts';
import type { CallLabel } from '../extensions/extension.ts';
import type { WorkerInfo } from './worker-info.ts';

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
 * Sees calls begin and end, on both sides. It is called on the way of every call: it must not throw, must not keep the records it is
 * given, and never sees arguments or results.
 */
export interface CallObserver {
  /** An outgoing call was opened. */
  called?(call: ObservedCall): void;
  /** It is over; `error` is undefined when it succeeded. */
  settled?(call: ObservedCall, error: unknown): void;
  /** The handler of an incoming call begins. */
  handling?(call: ObservedHandler): void;
  /** Its handler is over, or it was refused; `error` is undefined when it succeeded. */
  handled?(call: ObservedHandler, error: unknown): void;
}

/** The observers of one agent. */
export class Observers {
  private readonly all = new Set<CallObserver>();
  private joined: CallObserver | undefined;

  /** What to tell of a call; undefined while nobody listens. */
  get current(): CallObserver | undefined {
    return this.joined ?? (channelsAreWatched() ? channelObserver : undefined);
  }

  /** @returns what ends the watching. */
  add(observer: CallObserver): () => void {
    this.all.add(observer);
    this.join();
    return () => {
      this.all.delete(observer);
      this.join();
    };
  }

  private join(): void {
    this.joined = this.all.size === 0 ? undefined : new Fan([...this.all]);
  }
}

/** Tells several, and the diagnostics channels while somebody subscribes to them. */
class Fan implements CallObserver {
  private readonly observers: readonly CallObserver[];

  constructor(observers: readonly CallObserver[]) {
    this.observers = observers;
  }

  called(call: ObservedCall): void {
    if (channelsAreWatched()) channelObserver.called?.(call);
    for (const observer of this.observers) observer.called?.(call);
  }

  settled(call: ObservedCall, error: unknown): void {
    if (channelsAreWatched()) channelObserver.settled?.(call, error);
    for (const observer of this.observers) observer.settled?.(call, error);
  }

  handling(call: ObservedHandler): void {
    if (channelsAreWatched()) channelObserver.handling?.(call);
    for (const observer of this.observers) observer.handling?.(call);
  }

  handled(call: ObservedHandler, error: unknown): void {
    if (channelsAreWatched()) channelObserver.handled?.(call, error);
    for (const observer of this.observers) observer.handled?.(call, error);
  }
}
