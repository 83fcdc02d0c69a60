/** @file What happened in a run: a running hash of all events, and the last ones in words. */

/** Events kept for the failure message. */
const KEPT = 60;

/** Running hash and tail of a simulation. */
export class Trace {
  #events = 0;
  #h1 = 0x811c9dc5;
  #h2 = 0x41c6ce57;
  readonly #tail: { time: number; what: string }[] = [];
  #next = 0;

  /** Events run so far; notes do not count. */
  get events(): number {
    return this.#events;
  }

  /** 16 hexadecimal digits that depend on every event and note, its time and its order. */
  get hash(): string {
    return [this.#h2 >>> 0, this.#h1 >>> 0].map((half) => half.toString(16).padStart(8, '0')).join('');
  }

  /** Counts an event. */
  event(time: number, label: string): void {
    this.#events++;
    this.#add(time, label);
  }

  /** Adds something said by a node. */
  note(time: number, what: string): void {
    this.#add(time, what);
  }

  /** The last events, oldest first, one a line. */
  tail(): string {
    const ordered = [...this.#tail.slice(this.#next), ...this.#tail.slice(0, this.#next)];
    return ordered.map(({ time, what }) => `    ${time.toFixed(3).padStart(10)}  ${what}`).join('\n');
  }

  #add(time: number, what: string): void {
    let h1 = this.#h1 ^ Math.round(time * 1_000);
    let h2 = this.#h2;
    for (let i = 0; i < what.length; i++) {
      const unit = what.charCodeAt(i);
      h1 = Math.imul(h1 ^ unit, 0x01000193);
      h2 = Math.imul(h2 ^ unit, 0x5f356495) + 1;
    }
    this.#h1 = Math.imul(h1 ^ (h1 >>> 15), 0x85ebca6b);
    this.#h2 = Math.imul(h2 ^ (h2 >>> 13) ^ h1, 0xc2b2ae35);
    this.#tail[this.#next] = { time, what };
    this.#next = (this.#next + 1) % KEPT;
  }
}
