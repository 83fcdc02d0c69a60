/** @file The name of a value's class, which is asked for once: who asks while the answer is on its way shares the question. */
import { ambient, runAtRoot } from '@backwire/tensor/internal';

/** Of one handle. */
export class TypeQuestion {
  /** Set once it is known. */
  name: string | undefined;
  /** What all get who ask again. */
  private known: Promise<string> | undefined;
  /** The question that is under way, and what the program runs in that asks: its deadline, signal and profile are no others'. */
  private open: { readonly promise: Promise<string>; readonly within: object } | undefined;

  constructor(name?: string) {
    this.name = name;
  }

  /** The answer, or the question on its way that was put from where this is called. */
  shared(): Promise<string> | undefined {
    return this.known ?? (this.open?.within === ambient() ? this.open.promise : undefined);
  }

  /** Takes the answer. */
  learn(name: string): string {
    this.name = name;
    // It outlives the call that asked, and keeps nothing of what that runs in.
    this.known ??= runAtRoot(() => Promise.resolve(name));
    return name;
  }

  /** Lets others share a question. One that fails is for those who share it; whoever comes later asks anew. */
  share(promise: Promise<string>): Promise<string> {
    const open = { promise, within: ambient() };
    this.open = open;
    const forget = (): void => {
      if (this.open === open) this.open = undefined;
    };
    promise.then(forget, forget);
    return promise;
  }
}
