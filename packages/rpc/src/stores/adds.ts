/** @file Additions to counters of a store that cannot add: those of one process to one counter do not race against each other. */
import { RpcError } from '../base/errors.ts';

/** Somebody's share of the next change. */
interface Waiting {
  readonly delta: bigint;
  readonly resolve: (sum: bigint) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * While a change of a counter is on its way, all further ones become one, which is made when that is done; each gets the sum that it would have
 * got in the order in which they were asked for. One after another they would have to win against each other, again and again.
 */
export class Adds {
  private readonly once: (key: string, delta: bigint) => Promise<bigint>;
  /** By key, while a change is on its way: those that wait for it. */
  private readonly waiting = new Map<string, Waiting[]>();

  constructor(once: (key: string, delta: bigint) => Promise<bigint>) {
    this.once = once;
  }

  add(key: string, delta: bigint): Promise<bigint> {
    return new Promise((resolve, reject) => {
      const one = { delta, resolve, reject };
      const behind = this.waiting.get(key);
      if (behind !== undefined) behind.push(one);
      else void this.run(key, [one]);
    });
  }

  private async run(key: string, first: readonly Waiting[]): Promise<void> {
    const behind = [...first];
    this.waiting.set(key, behind);
    while (behind.length > 0) await this.change(key, behind.splice(0, sameSign(behind)));
    this.waiting.delete(key);
  }

  private async change(key: string, all: readonly Waiting[]): Promise<void> {
    try {
      let sum = await this.once(
        key,
        all.reduce((total, { delta }) => total + delta, 0n),
      );
      for (const { delta, resolve } of [...all].reverse()) {
        resolve(sum);
        sum -= delta;
      }
    } catch (error) {
      // Together they may be too much where one alone is not; a change that may have been made is not tried again.
      if (all.length === 1 || RpcError.from(error).code !== 'failed-precondition')
        for (const { reject } of all) reject(error);
      else for (const one of all) await this.change(key, [one]);
    }
  }
}

/** How many of the first are all up or all down: then no sum on the way is out of range where the last is not. */
function sameSign(all: readonly Waiting[]): number {
  const isUp = (all[0]?.delta ?? 0n) >= 0n;
  const end = all.findIndex(({ delta }) => delta >= 0n !== isUp);
  return end < 0 ? all.length : end;
}
