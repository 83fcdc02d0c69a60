/** @file What a worker is told while it waits for its group to be complete. */
import type { GroupStore } from './group-store.ts';
import type { View } from '../protocol/membership.ts';

export interface Watching {
  /** What another worker said about this one's name, or the size of its group. */
  conflict: string | undefined;
  stop(): void;
  /** Resolves when it is time to look at the view again, after so long at most. */
  change(ms: number, view: View): Promise<void>;
}

/**
 * Between two looks at how far the group is, about; so much more for each member, as the view is larger then. That it is complete is
 * told, unless whoever made it so died there, or is of a version that does not say it.
 */
const LOOK_MS = 1_000;
const LOOK_MS_PER_MEMBER = 4;

export function watchWhileJoining(keys: GroupStore, name: string): Watching {
  const stop = new AbortController();
  let due = false;
  let wake: (() => void) | undefined;
  const changed = (): void => {
    due = true;
    wake?.();
  };
  const watching: Watching = {
    conflict: undefined,
    stop: () => stop.abort(),
    change: (ms, { members }) =>
      new Promise<void>((resolve) => {
        const most = LOOK_MS + members.length * LOOK_MS_PER_MEMBER;
        const done = (): void => {
          due = false;
          wake = undefined;
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(done, due ? 0 : Math.min(ms, most * (0.5 + Math.random())));
        wake = done;
      }),
  };
  keys.watchComplete(stop.signal, changed).catch(() => undefined);
  keys
    .watchConflict(name, stop.signal, (text) => {
      if (text !== undefined) watching.conflict = text.replace(/^failed-precondition: /, '');
      changed();
    })
    .catch(() => undefined);
  return watching;
}
