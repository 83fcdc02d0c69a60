/** @file Findings by fault: one of each is confirmed, made small and shown. */
import { Checker, type Finding } from './checker.ts';
import type { Executor } from './executors.ts';
import { printPath, printProgram } from './print.ts';
import { judgeWith, shrink, signature, sizeOf } from './shrink.ts';
import type { TorchPeer } from './torch-peer.ts';

/** Findings that look like one fault. */
export interface Group {
  readonly signature: string;
  readonly findings: readonly Finding[];
  /** The smallest that was found, or made. */
  readonly smallest: Finding;
  /** Whether a process that has run nothing else shows it, too. */
  readonly alone: boolean;
}

/** By signature, the most frequent first. */
export function groupFindings(findings: readonly Finding[]): Group[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const key = signature(finding);
    groups.set(key, [...(groups.get(key) ?? []), finding]);
  }
  return [...groups]
    .map(([key, all]) => ({ signature: key, findings: all, smallest: smallestOf(all), alone: true }))
    .sort((a, b) => b.findings.length - a.findings.length);
}

function smallestOf(findings: readonly Finding[]): Finding {
  return findings.reduce((best, one) => (sizeOf(one.program) < sizeOf(best.program) ? one : best));
}

/** How many members of a group are tried for one that shows the fault alone. */
const TRIES = 3;

/** Confirms a group in fresh processes and shrinks what is confirmed. */
export async function settle(
  group: Group,
  torch: TorchPeer,
  executors: readonly Executor[],
  budgetMs: number,
): Promise<Group> {
  const bySize = [...group.findings].sort((a, b) => sizeOf(a.program) - sizeOf(b.program));
  for (const finding of bySize.slice(0, TRIES)) {
    const executor = executors.find(({ backend }) => backend === finding.backend) as Executor;
    // Only a device's memory can be damaged by an earlier program.
    if (executor.backend !== 'cpu') await executor.restart();
    const checker = new Checker(torch, [executor]);
    const { findings } = await checker.check([finding.program]);
    if (findings[0] === undefined || findings[0].explained !== finding.explained) continue;
    return { ...group, smallest: await shrink(findings[0], judgeWith(checker), budgetMs) };
  }
  return { ...group, alone: false };
}

/** How often, on what, and the program in both languages. */
export function showGroup({ findings, smallest, alone }: Group): string {
  const { program, torchs, difference } = smallest;
  const { ts, py } = printProgram(program, torchs);
  const backends = [...new Set(findings.map(({ backend }) => backend))].join(', ');
  const seeds = findings
    .slice(0, 3)
    .map((one) => one.program.seed)
    .join(' ');
  return [
    `${findings.length} × ${difference.kind} on ${backends}, e.g. --case ${seeds}${alone ? '' : ' (only after other programs in the same process)'}`,
    indent(ts),
    indent(py),
    `  ${printPath(difference.path)}: ${difference.ours.slice(0, 240)}`,
    `  ${' '.repeat(printPath(difference.path).length)}  PyTorch: ${difference.torchs.slice(0, 240)}`,
  ].join('\n');
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ');
}
