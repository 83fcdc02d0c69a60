/** @file The ambient profiler: a recorder and the event that whatever happens now is inside of. */
import { ambient, runWith, type OpObserver } from '@backwire/tensor/internal';
import { NO_EVENT, type Recorder } from './recorder.ts';

/** Sits in the `profile` slot of the ambient record, and is what tensor operations report to. */
export class ProfileScope implements OpObserver {
  readonly recorder: Recorder;
  /** The event this scope is the inside of, -1 at the top. */
  readonly parent: number;
  /** Operations that have begun and not ended; they are synchronous, so they nest. */
  private readonly open: number[] = [];

  constructor(recorder: Recorder, parent: number) {
    this.recorder = recorder;
    this.parent = parent;
  }

  begin(name: string, inputs: readonly unknown[]): number {
    const index = this.recorder.begin('op', name, this.innermost(), inputs);
    this.open.push(index);
    return this.open.length - 1;
  }

  /** Ends the operation, and those inside it that threw before they could end. */
  end(token: unknown): void {
    if (typeof token !== 'number') return;
    while (this.open.length > token) {
      const index = this.open.pop();
      if (index !== undefined && index !== NO_EVENT) this.recorder.end(index);
    }
  }

  during<T>(name: string, fn: () => Promise<T>): Promise<T> {
    const event = this.recorder.begin('scope', name, this.innermost());
    return runWith({ profile: this.inside(event) }, fn).finally(() => this.recorder.end(event));
  }

  /** What an event that begins now is inside of. */
  innermost(): number {
    return this.open.at(-1) ?? this.parent;
  }

  /** The scope inside of `event`. */
  inside(event: number): ProfileScope {
    return new ProfileScope(this.recorder, event === NO_EVENT ? this.parent : event);
  }
}

/** The profiler in force here. */
export function currentScope(): ProfileScope | undefined {
  const { profile } = ambient();
  return profile instanceof ProfileScope ? profile : undefined;
}
