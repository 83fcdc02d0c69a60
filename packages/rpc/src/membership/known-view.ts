/** @file The view as one worker knows it: hearing of newer ones, changing it, and telling it to a store that has lost it. */
import { RpcError } from '../base/errors.ts';
import type { Logger } from '../base/options.ts';
import { isBehind, isOther, isRestored, rejoined, restored } from '../protocol/histories.ts';
import { EMPTY_VIEW, lifeOf, type View, type ViewMember } from '../protocol/membership.ts';
import { MAX_ATTEMPTS, type GroupStore } from './group-store.ts';

export interface KnownViewOptions {
  readonly keys: GroupStore;
  readonly logger: Logger;
  /** Told of every view, in any order, some more than once. */
  readonly onView: (view: View) => void;
}

export class KnownView {
  /** The newest view that was told. */
  latest: View = EMPTY_VIEW;
  /** This worker while it is a member. */
  self: ViewMember | undefined;
  /** This worker leaves, or has left, by itself: what others say of it from then on is no news. */
  hasLeft = false;
  private readonly options: KnownViewOptions;

  constructor(options: KnownViewOptions) {
    this.options = options;
  }

  /** A view that the store has or had. */
  tell(view: View): void {
    if (this.isOther(view)) {
      // The store lost the view, or the latest of it, and others have gone on with what was left.
      this.restoreSoon();
      return;
    }
    const { latest, options } = this;
    if (latest !== EMPTY_VIEW && isRestored(latest, view)) options.keys.forgot();
    if (view.epoch > latest.epoch) this.latest = view;
    // Whoever leaves is not put out: its calls end as those of a worker that has shut down.
    if (!this.hasLeft) options.onView(view);
  }

  /** What the store has now; a view that was told may be late. */
  found(view: View): void {
    if (view !== EMPTY_VIEW && isBehind(this.latest, view)) this.restoreSoon();
    this.tell(view);
  }

  /** The view as another member has it, which may be newer. */
  learn(view: View): void {
    if (view.founder === this.latest.founder && view.epoch > this.latest.epoch) this.tell(view);
  }

  /** Reads the view now. */
  async refresh(): Promise<View> {
    const view = await this.options.keys.view();
    this.found(view);
    return view;
  }

  /** Sets what `step` makes of the view, which may be asked many times; the same view is no change. Resolves with the latest. */
  async change(step: (view: View) => View | Promise<View>): Promise<View> {
    const { keys } = this.options;
    // What is known is the latest most of the time: only if it is not, or there is nothing to change in it, is the store's read.
    let isRead = this.latest === EMPTY_VIEW;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++, isRead = true) {
      const view = isRead ? await keys.view() : this.latest;
      const next = await step(view);
      if (next === view) {
        if (isRead) return view;
        continue;
      }
      if (!(await keys.setView(view, next))) continue;
      this.tell(next);
      return next;
    }
    throw new RpcError('unavailable', 'the view of the group changes faster than it can be set');
  }

  /** Whether the store has lost the view, or just got it again: with it, it has lost what else it had. */
  async isLost(): Promise<boolean> {
    const { latest } = this;
    if (latest === EMPTY_VIEW) return false;
    const view = await this.options.keys.view();
    if (view !== EMPTY_VIEW) this.tell(view);
    return view === EMPTY_VIEW || isRestored(latest, view) || this.isOther(view);
  }

  /**
   * A store that forgot everything, or the latest of it, is told what it had, under an epoch that nobody has seen. Whoever has joined
   * there meanwhile stays, unless it came under the name or the id of one that lives.
   */
  async restore(): Promise<void> {
    const { keys } = this.options;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { latest, self } = this;
      const found = await keys.view();
      if (self === undefined || latest === EMPTY_VIEW) return;
      // What it knew before it asked: the view may have gone on meanwhile.
      if (found !== EMPTY_VIEW && !this.isOther(found) && (latest !== this.latest || !isBehind(latest, found))) return;
      const next = found === EMPTY_VIEW ? restored(latest) : rejoined(latest, found);
      if (!(await keys.setView(found, next))) continue;
      this.tell(next);
      return;
    }
  }

  /** Whether the store still has this worker in its view, once it has back what it lost; true for one that is yet to come. */
  async stillHasMe(): Promise<boolean> {
    const { self } = this;
    if (self === undefined) return true;
    await this.restore();
    const view = await this.refresh();
    return view.members.some((member) => lifeOf(member) === lifeOf(self));
  }

  private isOther(view: View): boolean {
    const { self, latest } = this;
    return self !== undefined && isOther(lifeOf(self), latest, view);
  }

  private restoreSoon(): void {
    const failed = (error: unknown): void => this.options.logger.debug({ error }, 'the view was not restored yet');
    void this.restore().catch(failed);
  }
}
