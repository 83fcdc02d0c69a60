/** @file Draws the programs of seeds and checks them, batch by batch. */
import { Random } from '@backwire/testing';
import type { Checker, Finding } from './checker.ts';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';
import type { Suite } from './suites/suite.ts';

/** What a suite came to. */
export interface Tally {
  programs: number;
  /** Programs that PyTorch refuses, as we do where nothing is found. */
  refused: number;
  /** Programs with a difference that is explained, and with one that is not, on any backend. */
  explained: number;
  unexplained: number;
}

export interface RunOptions {
  readonly first: number;
  readonly seeds: number;
  /** Called with every batch. */
  readonly watch?: (programs: readonly Program[], torchs: readonly Outcome[], findings: readonly Finding[]) => void;
}

const BATCH = 200;
/** Batches of large tensors are smaller. */
const LARGE_BATCH = 10;

/** The program of a suite with a number: `operations/3/17` is number 17 of seed 3. */
export function drawProgram(suite: Suite, seed: number, number: number): Program {
  const name = `${suite.name}/${seed}/${number}`;
  return suite.draw(new Random(name), name);
}

/** Runs `seeds` seeds of every suite. */
export async function runSuites(
  checker: Checker,
  suites: readonly Suite[],
  options: RunOptions,
): Promise<{ tallies: Map<string, Tally>; findings: Finding[] }> {
  const tallies = new Map(
    suites.map(({ name }): [string, Tally] => [name, { programs: 0, refused: 0, explained: 0, unexplained: 0 }]),
  );
  const findings: Finding[] = [];
  for (let seed = options.first; seed < options.first + options.seeds; seed++) {
    for (const suite of suites) {
      const step = suite.large === true ? LARGE_BATCH : BATCH;
      for (let at = 0; at < suite.perSeed; at += step) {
        const count = Math.min(step, suite.perSeed - at);
        const programs = Array.from({ length: count }, (_, i) => drawProgram(suite, seed, at + i));
        const batch = await checker.check(programs);
        findings.push(...batch.findings);
        addTo(tallies.get(suite.name) as Tally, batch.torchs, batch.findings);
        options.watch?.(programs, batch.torchs, batch.findings);
      }
    }
  }
  return { tallies, findings };
}

function addTo(tally: Tally, torchs: readonly Outcome[], findings: readonly Finding[]): void {
  const unexplained = new Set(findings.filter((one) => one.explained === undefined).map(({ program }) => program));
  const explained = new Set(findings.map(({ program }) => program).filter((program) => !unexplained.has(program)));
  tally.programs += torchs.length;
  tally.refused += torchs.filter(({ refusal }) => refusal !== undefined).length;
  tally.explained += explained.size;
  tally.unexplained += unexplained.size;
}
