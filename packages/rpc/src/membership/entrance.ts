/** @file The way in and out of the view when many want it at once: they write down what they want, and one of them takes all in one change. */
import { sleepUnref, within } from '../base/within.ts';
import type { GroupStore } from './group-store.ts';
import { takeAll, type Wish } from '../protocol/admission.ts';
import type { Life, View, ViewMember } from '../protocol/membership.ts';
import type { Lease } from '../stores/store.ts';

export interface EntranceOptions {
  readonly keys: GroupStore;
  readonly lease: Lease;
  /** Ends what is done for others. */
  readonly signal: AbortSignal;
  /** Another's entry with another id; undefined when this worker may not write it. */
  readonly rewrite: (member: ViewMember, id: number) => ViewMember | undefined;
  /** The view was changed here. */
  readonly onView: (view: View) => void;
}

/** `looked-at`: somebody has granted the wish, or has seen that it cannot be. `alone`: nobody looks at wishes. */
export type Attended = 'looked-at' | 'alone';

/** Between two changes of a view by one who takes others in, for each member: each change is told to all of them. */
const LINGER_MS_PER_MEMBER = 0.25;
/** Between two tries to stand at the door, where one stands who may be gone. */
const DOOR_MS = 1_000;
/** The same for those that leave: they have little time, and so has whoever stands there. */
const HASTY_DOOR_MS = 200;
/** Whoever stands at the door and takes nobody in for so long is not waited for: all that wait would set a view that each of them makes larger. */
const PATIENCE_MS = 5_000;

/**
 * Whoever stands at the door takes the others in, until nobody waits. That is a way to make few changes of many, and no more than
 * that: the view is set by compare-and-set all the same, and a door that does not open is walked round.
 */
export class Entrance {
  private readonly options: EntranceOptions;

  constructor(options: EntranceOptions) {
    this.options = options;
  }

  /**
   * Has a wish of `life` looked at, by another or here. One who joins takes the others in while it goes on with its own work; one who
   * leaves stays at the door until nobody waits.
   */
  async wait(life: Life, wish: Wish): Promise<Attended> {
    const { keys, lease } = this.options;
    const stop = new AbortController();
    const looked = keys.watchWish(life, stop.signal).then(() => true);
    // It may fail before it is waited for.
    looked.catch(() => undefined);
    try {
      await keys.wish(life, wish, lease);
      let until = performance.now() + PATIENCE_MS;
      let seen: string | undefined;
      const everyMs = wish.kind === 'join' ? DOOR_MS : HASTY_DOOR_MS;
      while (performance.now() < until) {
        // Asked first, since many ask: a store writes down every try, won or lost, but reads for all of a process at once.
        const door = await keys.door();
        if (door !== undefined && door !== seen) {
          seen = door;
          until = performance.now() + PATIENCE_MS;
        }
        if (door === undefined && (await keys.takeDoor(life, lease))) {
          const served = this.serve(life);
          if (wish.kind === 'leave') await served;
          else await Promise.race([served, looked]);
          return 'looked-at';
        }
        if (await within(looked, everyMs * (0.5 + Math.random()), () => false)) return 'looked-at';
      }
      await keys.answer([life]);
      return 'alone';
    } finally {
      stop.abort();
    }
  }

  private async serve(life: Life): Promise<void> {
    try {
      await this.takeIn(life);
    } catch (error) {
      // The lease goes on, and the door with it: nobody else could stand there.
      void this.goAway();
      throw error;
    }
  }

  private async goAway(): Promise<void> {
    const { keys, signal } = this.options;
    while (!signal.aborted) {
      try {
        await keys.leaveDoor();
        return;
      } catch {
        await sleepUnref(DOOR_MS);
      }
    }
  }

  private async takeIn(life: Life): Promise<void> {
    const { keys, lease, signal, rewrite, onView } = this.options;
    let view: View | undefined;
    let batches = 0;
    while (!signal.aborted) {
      const wishes = await keys.wishes();
      if (wishes.size === 0) {
        await keys.leaveDoor();
        // Who came before the door was free counts on the one who stood there.
        if ((await keys.wishes()).size === 0 || !(await keys.takeDoor(life, lease))) return;
        batches = 0;
        continue;
      }
      view ??= await keys.view();
      const taken = takeAll(view, wishes.values(), rewrite);
      if (taken.view !== view) {
        if (!(await keys.setView(view, taken.view))) {
          view = undefined;
          continue;
        }
        view = taken.view;
        onView(view);
      }
      // Who waits goes on waiting. Another that stands here meanwhile does the rest.
      const isHere = await keys.goOn(life, ++batches, lease);
      // Whoever cannot be taken in finds out why by itself.
      await keys.answer(wishes.keys());
      if (!isHere) return;
      await sleepUnref(view.members.length * LINGER_MS_PER_MEMBER);
    }
  }
}
