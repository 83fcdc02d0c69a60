import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { View } from '../protocol/membership.ts';
import type { GroupStore } from './group-store.ts';
import { watchWhileJoining, type Watching } from './waiting.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const view = { members: [] } as unknown as View;

/** Who waits, and what the store tells. */
function waiting(): { watching: Watching; complete(): void; conflict(text: string): void } {
  let complete: () => void = () => undefined;
  let conflict: (text: string) => void = () => undefined;
  const keys = {
    watchComplete: (_: AbortSignal, told: () => void) => ((complete = told), Promise.resolve()),
    watchConflict: (_name: string, _: AbortSignal, told: (text: string) => void) => (
      (conflict = told),
      Promise.resolve()
    ),
  } as unknown as GroupStore;
  return { watching: watchWhileJoining(keys, 'w'), complete: () => complete(), conflict: (text) => conflict(text) };
}

/** How many milliseconds until it is time to look again; at most 10 s. */
async function until(change: Promise<void>): Promise<number> {
  const began = Date.now();
  let at: number | undefined;
  void change.then(() => (at = Date.now()));
  for (let i = 0; i < 100 && at === undefined; i++) await vi.advanceTimersByTimeAsync(100);
  return (at ?? Infinity) - began;
}

describe('who waits for a group', () => {
  it('looks again when it is told, and when it was told while it looked', async () => {
    const { watching, complete } = waiting();
    const told = watching.change(60_000, view);
    complete();
    expect(await until(told)).toBe(0);
    complete(); // between two waits: the view was being read
    expect(await until(watching.change(60_000, view))).toBeLessThan(2);
    expect(await until(watching.change(60_000, view))).toBeGreaterThan(400);
  });

  it('looks by itself, sooner where less time is left, and later the larger the group is', async () => {
    const { watching } = waiting();
    const silent = await until(watching.change(60_000, view));
    expect(silent).toBeGreaterThanOrEqual(500);
    expect(silent).toBeLessThanOrEqual(1_600);
    expect(await until(watching.change(200, view))).toBe(200);
    const large = { members: new Array<unknown>(1_000) } as unknown as View;
    expect(await until(watching.change(60_000, large))).toBeGreaterThanOrEqual(2_500);
  });

  it('has the words of a conflict, and looks at once', async () => {
    const { watching, conflict } = waiting();
    const change = watching.change(60_000, view);
    conflict("failed-precondition: worker 'w' is there already");
    expect(await until(change)).toBe(0);
    expect(watching.conflict).toBe("worker 'w' is there already");
  });
});
