/** @file The one line in which all dials of this process stand, whatever agent they are of. */
import { runAtRoot } from '@backwire/tensor/internal';
import { MAX_DIALS, SLOW_DIAL_MS } from '../base/limits.ts';
import { later, unref } from '../base/platform.ts';
import { DialQueue } from '../protocol/dial-queue.ts';

const queue = new DialQueue<object>(MAX_DIALS, SLOW_DIAL_MS, Math.random);
let timer: ReturnType<typeof setTimeout> | undefined;
let scheduled = false;

/** Calls `start` when it is this dial's turn among those of `who`; the returned function says that it is over. */
export function waitToDial(who: object, again: boolean, start: () => void): () => void {
  const turn = queue.enter(who, again, start);
  advance();
  return () => {
    queue.leave(turn, performance.now());
    if (!scheduled && queue.nextAt() !== Infinity) {
      scheduled = true;
      later(advance);
    }
  };
}

function advance(): void {
  scheduled = false;
  clearTimeout(timer);
  timer = undefined;
  for (const { start } of queue.next(performance.now())) start();
  const at = queue.nextAt();
  if (at !== Infinity)
    timer = runAtRoot(() => unref(setTimeout(advance, Math.max(1, Math.ceil(at - performance.now())))));
}
