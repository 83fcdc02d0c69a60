/** @file What every contestant can be asked to do, and the arithmetic on what came out. */

/** Echo sizes, MiB. */
export const ECHO_MIB = [1, 16, 64, 256] as const;

/** What a call carries there and back: 'nothing' or 'tensor' for everybody, and what else a contestant knows. */
export type Payload = string;

/**
 * One contestant; each method is one short block, so that blocks of several contestants can take turns. What it cannot do is undefined.
 */
export interface Contestant {
  readonly name: string;
  /** Round trips one after the other, in microseconds each. */
  latency(payload: Payload, count: number): Promise<readonly number[]> | undefined;
  /** Calls per second, all of them started at once, or (`inFlight` > 0) each started when an earlier one is over. */
  throughput(payload: Payload, count: number, inFlight: number): Promise<number> | undefined;
  /** GiB per second, both ways added, of a tensor of so many MiB that is sent there and back. */
  echo(mib: number, count: number): Promise<number> | undefined;
  close(): Promise<void>;
}

/** How much of each block. */
export interface Effort {
  readonly rounds: number;
  readonly warmUps: number;
  readonly latencyCalls: number;
  readonly throughputCalls: number;
  /** Echoes of one block, by size in MiB. */
  echoes(mib: number): number;
}

export const FULL: Effort = {
  rounds: 7,
  warmUps: 8,
  latencyCalls: 2_000,
  throughputCalls: 20_000,
  echoes: (mib) => Math.max(2, Math.min(40, Math.floor(256 / mib))),
};

export const QUICK: Effort = {
  rounds: 3,
  warmUps: 5,
  latencyCalls: 500,
  throughputCalls: 20_000,
  echoes: (mib) => (mib > 64 ? 1 : mib > 1 ? 3 : 10),
};

/** The value below which a share of the samples lies. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** GiB per second of `count` echoes of `mib` MiB. */
export function echoRate(mib: number, count: number, elapsedMs: number): number {
  return (2 * mib * count) / 1_024 / (elapsedMs / 1_000);
}
