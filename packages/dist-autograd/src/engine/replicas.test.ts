import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Replicas, type Replica } from './replicas.ts';

interface Fake extends Replica {
  readonly failed: unknown[];
}

function fake(): Fake {
  const failed: unknown[] = [];
  return {
    failed,
    parameters: () => [],
    reduceGradients: () => Promise.resolve(new Map()),
    fail: (cause) => void failed.push(cause),
  };
}

const pass = (n: number, worker = 0) => ({ worker, incarnation: 1, n });

/** Notes replicas of one line each, in the order in which they were made. */
function noted(...made: Fake[]): Replicas {
  const replicas = new Replicas();
  made.forEach((replica, place) => replicas.note(replica, { line: `${place}`, place }));
  return replicas;
}

const combines = { reaches: () => true, combine: () => Promise.resolve() };

it('combines those of one line in the order in which they were made, and no later one when one fails', async () => {
  const [a, b, c] = [fake(), fake(), fake()];
  const replicas = new Replicas();
  const line = 'one';
  replicas.note(c, { line, place: 3 });
  replicas.note(b, { line: 'other 1', place: 2 });
  replicas.note(a, { line, place: 1 });
  const begun: Replica[] = [];
  const ends: (() => void)[] = [];
  const combined = replicas.combine({
    reaches: () => false,
    combine: (replica) => {
      begun.push(replica);
      return new Promise((resolve, reject) => ends.push(replica === c ? () => reject(new Error('lost')) : resolve));
    },
  });
  expect(begun).toEqual([a, b]);
  ends[0]?.();
  await turn();
  expect(begun).toEqual([a, b, c]);
  ends[2]?.();
  await expect(combined).rejects.toThrow('lost');
});

it('gives up all that ran as long as it is not known what a pass reaches, and else those that it may reach or owes', async () => {
  const [a, b, c] = [fake(), fake(), fake()];
  const replicas = noted(a, b, c);
  await replicas.combine(combines);
  replicas.commit(pass(1));
  replicas.note(c, { line: 'other 2', place: 2 });
  replicas.fail('why', (replica) => replica === b);
  expect([a, b, c].map(({ failed }) => failed)).toEqual([[], ['why'], ['why']]);
  replicas.fail('then');
  expect(a.failed).toEqual(['then']);
});

it('gives up what was combined in a pass that fails elsewhere, until that is known to have succeeded', async () => {
  const [a, b] = [fake(), fake()];
  const replicas = noted(a);
  await replicas.combine(combines);
  replicas.commit(pass(1));
  replicas.note(b, { line: 'other 3', place: 1 });
  await replicas.combine({ ...combines, reaches: () => false });
  replicas.commit(pass(2));
  // Another origin's says nothing of these.
  replicas.confirm(pass(9, 1), [1, 2]);
  expect([a.failed, b.failed]).toEqual([[], []]);
  replicas.confirm(pass(3), [2]);
  expect(a.failed).toEqual([]);
  expect(String(b.failed)).toBe('Error: an earlier backward pass failed elsewhere');
  replicas.undo(pass(1), 'too late');
  expect(a.failed).toEqual([]);
});
