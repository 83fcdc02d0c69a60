/** @file Who watches the calls of an agent: nobody most of the time, and then a call pays one comparison. */
import { channelObserver, channelsAreWatched } from './diagnostics-channels.ts';
import type { CallObserver, ObservedCall, ObservedHandler } from './observed-call.ts';

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
