/** @file The groups of this machine as text. */
import type { RunningGroup } from '@backwire/rpc/internal';
import { cell, duration, table } from './text.ts';

/** A line for each group, or one that says that there is none. */
export function groupsText(groups: readonly RunningGroup[], now = Date.now()): string {
  if (groups.length === 0)
    return 'no group of this user runs on this machine; of another machine, give the address that its launcher printed';
  const rows = groups.map(({ address, pid, program, startedAt }) => [
    // Whole: it is there to be copied.
    cell(address, MAX_ADDRESS),
    String(pid),
    duration(now - startedAt),
    cell(program),
  ]);
  return table(['address', 'pid', 'up', 'program'], rows, [1, 2]);
}

const MAX_ADDRESS = 1_000;
