/** @file Who watches the calls of an agent: nobody most of the time, and then a call pays one comparison. */
import { channelObserver, channelsAreWatched } from './diagnostics-channels.ts';
import type { CallObserver, ObservedCall, ObservedHandler } from './observed-call.ts';
import type { Logger } from './options.ts';

/** The observers of one agent. What one of them throws is logged: it must not come between a call and its end. */
export class Observers {
  private readonly logger: () => Logger;
  private readonly all = new Set<CallObserver>();
  private joined: CallObserver | undefined;

  constructor(logger: () => Logger) {
    this.logger = logger;
  }

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
    this.joined = this.all.size === 0 ? undefined : new Fan([...this.all], this.logger());
  }
}

/** Tells several, and the diagnostics channels while somebody subscribes to them. */
class Fan implements CallObserver {
  private readonly observers: readonly CallObserver[];
  private readonly logger: Logger;

  constructor(observers: readonly CallObserver[], logger: Logger) {
    this.observers = observers;
    this.logger = logger;
  }

  called(call: ObservedCall): void {
    if (channelsAreWatched()) channelObserver.called?.(call);
    this.each((observer) => observer.called?.(call));
  }

  settled(call: ObservedCall, error: unknown): void {
    if (channelsAreWatched()) channelObserver.settled?.(call, error);
    this.each((observer) => observer.settled?.(call, error));
  }

  handling(call: ObservedHandler): void {
    if (channelsAreWatched()) channelObserver.handling?.(call);
    this.each((observer) => observer.handling?.(call));
  }

  handled(call: ObservedHandler, error: unknown): void {
    if (channelsAreWatched()) channelObserver.handled?.(call, error);
    this.each((observer) => observer.handled?.(call, error));
  }

  private each(tell: (observer: CallObserver) => void): void {
    for (const observer of this.observers)
      try {
        tell(observer);
      } catch (error) {
        this.logger.error({ error }, 'one that watches calls failed');
      }
  }
}
