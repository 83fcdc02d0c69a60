/** @file The mixed program: every feature between a worker here and two of stock torch, in groups of each kind. */
import type { Report } from '../report.ts';
import { callChecks } from './calls.ts';
import { Mixed } from './check.ts';
import { referenceChecks } from './references.ts';

/** Runs it with this worker in each place of a static group, and as one that joins a dynamic one. */
export async function mixed(ranks: readonly number[] | undefined, only: string, report: Report): Promise<void> {
  const groups: [string, () => Promise<Mixed>][] = [
    ...[0, 1, 2].map((rank): [string, () => Promise<Mixed>] => [`static, rank ${rank}`, () => Mixed.static(rank)]),
    ['dynamic', () => Mixed.dynamic()],
  ];
  for (const [i, [name, begin]] of groups.entries()) {
    if (ranks !== undefined && !ranks.includes(i)) continue;
    await inGroup(name, begin, only, report);
  }
}

async function inGroup(name: string, begin: () => Promise<Mixed>, only: string, report: Report): Promise<void> {
  let group: Mixed | undefined;
  await report.run(`${name}: the group begins`, async () => {
    group = await begin();
  });
  if (group === undefined) return;
  const { leave, empty } = { leave: group.leave.bind(group), empty: group.empty.bind(group) };
  for (const check of [...callChecks, ...referenceChecks])
    if (check.name.includes(only)) await report.run(`${name}: ${check.name}`, () => check.run(group as Mixed));
  await report.run(`${name}: all tables are empty`, empty);
  await report.run(`${name}: the group ends`, leave);
}
