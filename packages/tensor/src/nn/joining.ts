/** @file Which models workers join(): all that share a model of it have to name the same ones, or somebody waits for passes that never come. */
import { hashText } from '../hash-text.ts';
import { othersText, sumOf, oneOf } from './agreements.ts';
import type { Calls, Exchanges } from './exchanges.ts';
import type { ProcessGroup } from './process-group.ts';
import type { Tags } from './replicas.ts';

/**
 * A number for those of the models of this worker's `join()` that all members of one's group have to name as well: they are over all of
 * them, at least. A group of the program's does not say over whom it is: nothing is known of its models.
 */
export function markOfJoined(one: Exchanges, all: readonly Exchanges[]): number {
  const members = one.members?.workers;
  if (members === undefined) return 0;
  const keys = all.flatMap(({ members: other }) => {
    if (other?.workers === undefined || !members.every((name) => other.workers?.includes(name))) return [];
    return `${other.line} ${other.number} ${[...other.workers].sort().join()}`;
  });
  return hashText(keys.sort().join('\n')) >>> 0;
}

/** @throws Error on all members of a group where their marks of a `join()` differ, with the names of the workers that have others. */
export async function agreeOnJoined(group: ProcessGroup, mark: number, calls: Calls, tags: Tags): Promise<void> {
  const marks = await sumOf(group, oneOf(group, mark), calls, tags);
  const others = othersText(marks, mark, calls);
  if (others === '') return;
  const workers = others.includes(',') ? 'workers' : 'worker';
  throw new Error(
    `join() was called with other models on ${workers} ${others} than here: those over the same workers are named by all of them`,
  );
}
