/** @file Lets the parts of passes that come at once run one after the other, each sending what it made before the next begins. */
import { ambient, runAtRoot, runClean } from '@backwire/tensor/internal';

/** A part that took longer has made something worth sending before the next one; shorter ones are not held up. */
const LONG_PART_MS = 1;

/** Runs `fn` once what has been written in this turn of the event loop is on its way. */
const later: (fn: () => void) => void =
  typeof setImmediate === 'function' ? (fn) => void setImmediate(fn) : (fn) => void setTimeout(fn, 0);

/** Holds no more than the requests that peers may have here and the answers that are due to this worker. */
export class PartQueue {
  private readonly parts: (() => void)[] = [];
  private waiting = false;
  private readonly agent: object;
  private readonly now: () => number;

  constructor(agent: object, now: () => number) {
    this.agent = agent;
    this.now = now;
  }

  /** Runs `part` at once, unless one before it took long in this turn: then in its turn, one a turn of the event loop. */
  run(part: () => void): void {
    if (!this.waiting) {
      this.timed(part);
      return;
    }
    const { profile } = ambient();
    this.parts.push(() => runClean({ agent: this.agent, profile }, part));
  }

  private timed(part: () => void): void {
    const started = this.now();
    try {
      part();
    } finally {
      if (this.now() - started > LONG_PART_MS) this.yield();
    }
  }

  private yield(): void {
    this.waiting = true;
    runAtRoot(() => later(this.next));
  }

  private readonly next = (): void => {
    this.waiting = false;
    while (!this.waiting && this.parts.length > 0) this.timed(this.parts.shift() as () => void);
  };
}
