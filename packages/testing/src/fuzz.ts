/** @file Feeds damaged samples to decoders: each must accept them or refuse them in its own words, quickly. */
import { Seeded, mutate } from './mutate.ts';
import { processorMs } from './processor-time.ts';

/** A decoder and inputs that it accepts. */
export interface FuzzTarget {
  readonly name: string;
  readonly samples: readonly Uint8Array[];
  /** Throws a refusal for what it does not accept; anything else is a bug. */
  run(bytes: Uint8Array): void;
}

/** What a run saw. */
export interface FuzzReport {
  readonly accepted: number;
  readonly refused: number;
  /** How often each kind of refusal was seen. */
  readonly codes: ReadonlyMap<string, number>;
  /** How many inputs each target got. */
  readonly inputs: ReadonlyMap<string, number>;
  /** Inputs that broke a decoder: each is a bug. */
  readonly failures: readonly {
    readonly target: string;
    readonly seed: number;
    readonly hex: string;
    readonly error: unknown;
  }[];
  readonly slowestMs: number;
}

export interface FuzzOptions {
  readonly targets: readonly FuzzTarget[];
  readonly count: number;
  /** Each input has its own seed, counted up from this one, so that one failure can be repeated alone. */
  readonly seed: number;
  /** What kind of refusal an error is; undefined: none. */
  readonly refusal: (error: unknown) => string | undefined;
}

/** `count` damaged inputs, spread over all targets, half of them to the first one. Stops after ten failures. */
export function fuzz({ targets, count, seed, refusal }: FuzzOptions): FuzzReport {
  const failures: FuzzReport['failures'][number][] = [];
  const codes = new Map<string, number>();
  const inputs = new Map<string, number>();
  let accepted = 0;
  let refused = 0;
  let slowestMs = 0;
  for (let i = 0; i < count && failures.length < 10; i++) {
    const random = new Seeded(seed + i);
    const target = random.below(2) === 0 ? (targets[0] as FuzzTarget) : random.pick(targets);
    const bytes = mutate(random, random.pick(target.samples), random.pick(target.samples));
    inputs.set(target.name, (inputs.get(target.name) ?? 0) + 1);
    const began = performance.now();
    try {
      target.run(bytes);
      accepted++;
    } catch (error) {
      refused++;
      const code = refusal(error);
      if (code !== undefined) codes.set(code, (codes.get(code) ?? 0) + 1);
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
  return { accepted, refused, codes, inputs, failures, slowestMs };
}

function again(run: () => void): number {
  return processorMs(() => {
    try {
      run();
    } catch {
      // Counted the first time.
    }
  });
}

/** Prints a report, and says by the exit code whether it holds failures. */
export function printFuzzReport(report: FuzzReport, seconds: number): void {
  const { accepted, refused, codes, inputs, failures, slowestMs } = report;
  const kinds = JSON.stringify(Object.fromEntries(codes));
  console.log(
    `${accepted} accepted, ${refused} refused in ${seconds.toFixed(1)} s; slowest ${slowestMs.toFixed(1)} ms; ${kinds}`,
  );
  console.log(Array.from(inputs, ([name, count]) => `${name} ${count}`).join(', '));
  for (const { target, seed, hex, error } of failures) console.error(`${target}, seed ${seed}: ${hex}\n`, error);
  if (failures.length > 0) process.exitCode = 1;
}
