/** @file Runs programs on PyTorch and on backends of this package, and tells where they differ. */
import { compare, type Difference } from './compare.ts';
import type { Executor } from './executors.ts';
import { explain } from './explained.ts';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';
import type { TorchPeer } from './torch-peer.ts';

/** A program that comes to something else on a backend. */
export interface Finding {
  readonly program: Program;
  readonly backend: string;
  readonly difference: Difference;
  readonly torchs: Outcome;
  readonly ours: Outcome;
  /** The row of the table of explained differences that it is one of. */
  readonly explained: string | undefined;
}

/** What a batch came to. */
export interface Batch {
  readonly findings: readonly Finding[];
  /** By program, PyTorch's outcomes. */
  readonly torchs: readonly Outcome[];
}

export class Checker {
  readonly torch: TorchPeer;
  readonly executors: readonly Executor[];

  constructor(torch: TorchPeer, executors: readonly Executor[]) {
    this.torch = torch;
    this.executors = executors;
  }

  /** Compares every program on every backend. */
  async check(programs: readonly Program[]): Promise<Batch> {
    const [torchs, ...ours] = await Promise.all([
      this.torch.run(programs),
      ...this.executors.map((executor) => executor.run(programs)),
    ]);
    const suspects = programs
      .map((_, i) => i)
      .filter((i) => ours.some((outcomes) => compare(outcomes[i] as Outcome, torchs[i] as Outcome).length > 0));
    const judged = await this.torch.judge(suspects.map((i) => programs[i] as Program));
    const findings: Finding[] = [];
    for (const [k, i] of suspects.entries()) {
      for (const [b, executor] of this.executors.entries()) {
        const [program, mine] = [programs[i] as Program, ours[b]?.[i] as Outcome];
        const torch = torchs[i] as Outcome;
        const found = compare(mine, torch, judged[k]?.conditioning);
        const { backend } = executor;
        const named = found.map((difference) => {
          const explained = explain({ program, difference, backend, torchs: torch, ours: mine });
          return { program, backend, difference, torchs: torch, ours: mine, explained };
        });
        // One that is explained hides none that is not.
        const first = named.find(({ explained }) => explained === undefined) ?? named[0];
        if (first !== undefined) findings.push(first);
      }
    }
    return { findings, torchs };
  }

  async stop(): Promise<void> {
    await Promise.all([this.torch.stop(), ...this.executors.map((executor) => executor.stop())]);
  }
}
