/** @file Runs a suite of simulated scenarios over many seeds, shrinks the first failure and prints how to see it again. */
import { existsSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { shrinkScenario } from './shrink.ts';
import { SimulationFailure, type RunResult } from './simulation.ts';

/** A family of scenarios; a scenario is plain data drawn from a seed, so that it can be printed and shrunk. */
export interface Suite<S extends object> {
  /** As in `npm run sim -- --suite NAME`. */
  readonly name: string;
  /** The scenario of a seed. */
  draw(seed: number): S;
  /** Runs it; throws a `SimulationFailure` when an invariant breaks. */
  run(scenario: S): RunResult | Promise<RunResult>;
}

/** Which seeds to run. */
export interface SeedOptions {
  /** Number of seeds. */
  readonly count: number;
  /** First seed. @default 1 */
  readonly first?: number;
  /** File of seeds that failed once, one a line with `#` comments; they run first. */
  readonly regressions?: string;
  /** Runs every n-th seed twice and compares the event hashes; 0 for never. @default 50 */
  readonly recheckEvery?: number;
  /** Candidates the shrinker tries. @default 500 */
  readonly shrinkAttempts?: number;
  /** Real milliseconds after which the shrinker tries no more: a candidate takes as long as a run. @default 60 000 */
  readonly shrinkMs?: number;
  /** Hears of every seed that passed, and the totals so far. */
  readonly passed?: (totals: SeedTotals) => void;
  /** Hears of a failure before it is shrunk, which may take a while. */
  readonly failed?: (seed: number, error: unknown) => void;
  /** Command that reruns one seed. @default `npm run sim -- --suite NAME --seed SEED` */
  readonly rerun?: (suite: string, seed: number) => string;
  /** Stops early, with what was done, after this many real milliseconds. @default never */
  readonly budgetMs?: number;
}

/** What was run. */
export interface SeedTotals {
  readonly suite: string;
  readonly seeds: number;
  readonly events: number;
  /** Virtual milliseconds, all seeds together. */
  readonly virtualMs: number;
  /** Real milliseconds. */
  readonly wallMs: number;
  /** Seeds run twice with equal hashes. */
  readonly rechecked: number;
}

/** A failing seed with its shrunk scenario. */
export class SeedFailure extends Error {
  readonly seed: number;
  readonly scenario: object;

  constructor(suite: string, seed: number, rerun: string, scenario: object, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(
      `suite ${suite} fails with seed ${seed}\n  rerun: ${rerun}\n  smallest scenario found: ` +
        `${JSON.stringify(scenario)}\n  ${reason}`,
      { cause },
    );
    this.name = 'SeedFailure';
    this.seed = seed;
    this.scenario = scenario;
  }
}

/** Runs the regression seeds, then `count` seeds. Throws `SeedFailure` at the first one that fails. */
export async function runSeeds<S extends object>(suite: Suite<S>, options: SeedOptions): Promise<SeedTotals> {
  const started = performance.now();
  const first = options.first ?? 1;
  const seeds = [...readSeeds(options.regressions), ...Array.from({ length: options.count }, (_, i) => first + i)];
  const totals = { suite: suite.name, seeds: 0, events: 0, virtualMs: 0, wallMs: 0, rechecked: 0 };
  for (const seed of seeds) {
    if (performance.now() - started > (options.budgetMs ?? Infinity)) break;
    const result = await attempt(suite, seed, options);
    totals.seeds++;
    totals.events += result.events;
    totals.virtualMs += result.virtualMs;
    if (isMultiple(totals.seeds, options.recheckEvery ?? 50)) {
      await recheck(suite, seed, result, options);
      totals.rechecked++;
    }
    options.passed?.({ ...totals, wallMs: performance.now() - started });
  }
  return { ...totals, wallMs: performance.now() - started };
}

/** One line of counts. */
export function formatTotals(totals: SeedTotals): string {
  const { suite, seeds, events, virtualMs, wallMs, rechecked } = totals;
  const rate = events / Math.max(wallMs, 1) / 1_000;
  const speed = virtualMs / Math.max(wallMs, 1);
  return (
    `${suite}: ${seeds} seeds passed, ${events} events, ${(virtualMs / 3_600_000).toFixed(2)} virtual hours in ` +
    `${(wallMs / 1_000).toFixed(1)} s (${rate.toFixed(2)} M events/s, ${speed.toFixed(0)} times real time), ` +
    `${rechecked} seeds run twice with equal hashes`
  );
}

/** The seeds of a regression file; none when there is no such file. */
function readSeeds(file: string | undefined): number[] {
  if (file === undefined || !existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  const texts = lines.map((line) => line.replace(/#.*/, '').trim()).filter((line) => line !== '');
  return texts.map((text) => {
    const seed = Number(text);
    if (!Number.isSafeInteger(seed)) throw new Error(`${file}: not a seed: ${text}`);
    return seed;
  });
}

async function attempt<S extends object>(suite: Suite<S>, seed: number, options: SeedOptions): Promise<RunResult> {
  const scenario = suite.draw(seed);
  try {
    return await suite.run(scenario);
  } catch (error) {
    options.failed?.(seed, error);
    const until = performance.now() + (options.shrinkMs ?? 60_000);
    const rule = error instanceof SimulationFailure ? error.rule : undefined;
    let smallest: { scenario: S; error: unknown } = { scenario, error };
    if (rule !== undefined) {
      await shrinkScenario(
        scenario,
        async (candidate) => {
          if (performance.now() > until) return false;
          const caught = await failureOf(suite, candidate);
          if (!(caught instanceof SimulationFailure) || caught.rule !== rule) return false;
          smallest = { scenario: candidate, error: caught };
          return true;
        },
        { attempts: options.shrinkAttempts ?? 500 },
      );
    }
    throw new SeedFailure(suite.name, seed, command(suite, seed, options), smallest.scenario, smallest.error);
  }
}

async function recheck<S extends object>(suite: Suite<S>, seed: number, result: RunResult, options: SeedOptions) {
  const again = await suite.run(suite.draw(seed));
  if (again.hash === result.hash) return;
  const reason = new Error(`not deterministic: two runs of one seed gave ${result.hash} and ${again.hash}`);
  throw new SeedFailure(suite.name, seed, command(suite, seed, options), {}, reason);
}

async function failureOf<S extends object>(suite: Suite<S>, scenario: S): Promise<unknown> {
  try {
    await suite.run(scenario);
    return undefined;
  } catch (error) {
    return error;
  }
}

function command<S extends object>(suite: Suite<S>, seed: number, options: SeedOptions): string {
  return (options.rerun ?? ((name, value) => `npm run sim -- --suite ${name} --seed ${value}`))(suite.name, seed);
}

function isMultiple(value: number, of: number): boolean {
  return of > 0 && value % of === 0;
}
