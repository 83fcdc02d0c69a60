/** @file Feeds damaged samples to every decoder: each must accept them or throw WireError, quickly. */
import { WireError } from '../src/internal.ts';
import { Seeded, mutate } from './mutate.ts';
import { targets } from './targets.ts';

/** What a run saw. */
export interface FuzzReport {
  readonly accepted: number;
  readonly refused: number;
  /** How often each kind of refusal was seen. */
  readonly codes: ReadonlyMap<string, number>;
  /** Inputs that broke a decoder: each is a bug. */
  readonly failures: readonly {
    readonly target: string;
    readonly seed: number;
    readonly hex: string;
    readonly error: unknown;
  }[];
  readonly slowestMs: number;
}

/** `count` damaged inputs, spread over all decoders. Each input has its own seed, so one failure can be repeated alone. */
export function fuzz(count: number, seed: number): FuzzReport {
  const all = targets();
  const failures: FuzzReport['failures'][number][] = [];
  const codes = new Map<string, number>();
  let accepted = 0;
  let refused = 0;
  let slowestMs = 0;
  for (let i = 0; i < count && failures.length < 10; i++) {
    const random = new Seeded(seed + i);
    const target = random.below(2) === 0 ? (all[0] as (typeof all)[0]) : random.pick(all);
    const bytes = mutate(random, random.pick(target.samples), random.pick(target.samples));
    const began = performance.now();
    try {
      target.run(bytes);
      accepted++;
    } catch (error) {
      refused++;
      if (error instanceof WireError) codes.set(error.code, (codes.get(error.code) ?? 0) + 1);
      else failures.push({ target: target.name, seed: seed + i, hex: Buffer.from(bytes).toString('hex'), error });
    }
    const took = performance.now() - began;
    // A slow input is slow again; a busy machine is not.
    if (took > slowestMs)
      slowestMs = Math.max(
        slowestMs,
        Math.min(
          took,
          again(() => target.run(bytes)),
        ),
      );
  }
  return { accepted, refused, codes, failures, slowestMs };
}

function again(run: () => void): number {
  const began = performance.now();
  try {
    run();
  } catch {
    // Counted the first time.
  }
  return performance.now() - began;
}
