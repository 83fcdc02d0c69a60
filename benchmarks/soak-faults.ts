/**
 * @file `npm run soak -- --faults [--minutes 30] [--store rank0|launcher|apart] [--seed N]`: five workers call each other while one of
 * them is killed, stopped, or the store goes away, again and again. Fails when a promise of the documents is broken: a call that ends late
 * or never, runs twice, out of order or otherwise than its error says, has a wrong value; a healthy worker that is put out; a group that
 * does not become whole again.
 */
import { PLACES, Stage, within, type Place } from './faults/stage.ts';

const SIZE = 5;
/** Between two faults, at most. */
const PAUSE_MS = 6_000;
/** A group is whole again by then: the leases of the dead have ended, and those that were put out have come back. */
const WHOLE_MS = 90_000;
/** One that was stopped for longer may have been put out for it. */
const STOPPED_MS = 8_000;
/** A loop that has stood still for so long may have cost its worker its lease. */
const STANDSTILL_MS = 5_000;

/** Numbers from a seed: mulberry32. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Sums {
  faults: number;
  calls: number;
  failed: number;
  verified: number;
  readonly violations: string[];
}

/** Resolves with whether nothing was broken. */
export async function soakWithFaults(minutes: number, places: readonly Place[], seed: number): Promise<boolean> {
  let broken = 0;
  for (const [i, place] of places.entries()) {
    const sums = await run(place, (minutes / places.length) * 60_000, random(seed + i));
    broken += sums.violations.length;
    console.log(
      `store ${place}: ${sums.faults} faults, ${sums.calls} calls answered, ${sums.failed} failed, ${sums.verified} of them looked up at their callee, ${sums.violations.length} violations`,
    );
    for (const violation of sums.violations.slice(0, 20)) console.log(`  ${violation}`);
  }
  console.log(broken === 0 ? `0 violations (seed ${seed})` : `FAILED: ${broken} violations (seed ${seed})`);
  return broken === 0;
}

async function run(place: Place, forMs: number, next: () => number): Promise<Sums> {
  const sums: Sums = { faults: 0, calls: 0, failed: 0, verified: 0, violations: [] };
  const stage = await Stage.open(SIZE, place);
  const until = Date.now() + forMs;
  try {
    while (Date.now() < until) {
      await sleep(next() * PAUSE_MS);
      const [what, excused] = await fault(stage, next);
      sums.faults++;
      await heal(stage, what, excused, sums);
      await collect(stage, sums);
    }
    await finish(stage, sums);
  } finally {
    await stage.close();
  }
  return sums;
}

/** Does something, and resolves when it is over with what it was and whom it may have cost its place. */
async function fault(stage: Stage, next: () => number): Promise<[what: string, excused: ReadonlySet<number>]> {
  const rank = Math.floor(next() * SIZE);
  const kind = next();
  const ms = Math.floor(next() * 12_000);
  if (kind < 0.4) {
    stage.signal(rank, 'SIGKILL');
    await sleep(ms / 2);
    await stage.startWorker(rank);
    return [`w${rank} killed, back after ${ms / 2} ms`, new Set([rank])];
  }
  if (kind < 0.7 || stage.place === 'rank0') {
    stage.signal(rank, 'SIGSTOP');
    await sleep(ms);
    stage.signal(rank, 'SIGCONT');
    return [`w${rank} stopped for ${ms} ms`, ms > STOPPED_MS ? new Set([rank]) : new Set()];
  }
  await stage.closeStore();
  if (kind < 0.85) {
    await sleep(ms);
    await stage.openStore();
    return [`store away for ${ms} ms`, new Set()];
  }
  await sleep(ms / 2);
  stage.signal(rank, 'SIGKILL');
  await sleep(ms / 2);
  await stage.openStore();
  await stage.startWorker(rank);
  return [`store away for ${ms} ms, and w${rank} killed meanwhile`, new Set([rank])];
}

/** Waits until all see and reach each other; whoever was put out starts again. */
async function heal(stage: Stage, what: string, excused: ReadonlySet<number>, sums: Sums): Promise<void> {
  const until = Date.now() + WHOLE_MS;
  for (;;) {
    for (let rank = 0; rank < SIZE; rank++) {
      const report = await within(stage.report(rank), 10_000, undefined);
      if (report?.isFenced !== true) continue;
      if (!excused.has(rank) && report.standstillMs < STANDSTILL_MS)
        sums.violations.push(`w${rank} was put out, and had done nothing (${what})`);
      stage.signal(rank, 'SIGKILL');
      await stage.startWorker(rank);
    }
    const broken = await stage.broken();
    if (broken.length === 0) return;
    if (Date.now() >= until) {
      sums.violations.push(`not whole ${WHOLE_MS} ms after: ${what}: ${broken.join('; ')}`);
      return;
    }
    await sleep(500);
  }
}

async function collect(stage: Stage, sums: Sums): Promise<void> {
  for (let rank = 0; rank < SIZE; rank++)
    for (const violation of (await stage.report(rank))?.violations ?? [])
      sums.violations.push(`w${rank}: ${violation}`);
}

async function finish(stage: Stage, sums: Sums): Promise<void> {
  const ended = stage.workers.map(async (worker) => worker?.ask('end'));
  if (
    await within(
      Promise.all(ended).then(() => false),
      30_000,
      true,
    )
  )
    sums.violations.push('calls did not end in 30 s');
  await collect(stage, sums);
  for (let rank = 0; rank < SIZE; rank++) {
    const report = await stage.report(rank);
    sums.calls += report?.ok ?? 0;
    sums.verified += report?.verified ?? 0;
    sums.failed += Object.values(report?.codes ?? {}).reduce((sum, count) => sum + count, 0);
  }
}

export function placesOf(given: string | undefined): readonly Place[] {
  if (given === undefined) return PLACES;
  const place = PLACES.find((known) => known === given);
  if (place === undefined) throw new RangeError(`--store is one of ${PLACES.join(', ')}, got ${given}`);
  return [place];
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
