/** Every interleaving of small worlds, run on the production tables; and the run that each rule prevents. */
import { assertExplored, formatExploration, type Exploration } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import type { Bounds } from '../../explore/bounds.ts';
import { exploreRRefs, follow } from '../../explore/search.ts';

function explored(bounds: Bounds): Exploration<string> {
  const result = exploreRRefs(bounds, { maxStates: 400_000 });
  console.log(formatExploration(result));
  return result;
}

// A quiet machine needs about 4 s for all of this; one that is busy with other things must not fail for it.
const patient = { timeout: 180_000 };

describe('every interleaving of an owner and two users with three forks', patient, () => {
  it.each<Bounds>([
    { users: 2, forks: 3 },
    { users: 2, forks: 3, crashes: 1 },
    { users: 2, forks: 3, crashes: 2 },
    { users: 2, forks: 3, network: 'any order', duplicates: 1 },
    { users: 2, forks: 2, creator: 'user', losses: 1 },
    { users: 2, forks: 2, creator: 'user', crashes: 1 },
  ])('frees nothing too early and leaks nothing: %o', (bounds) => {
    const result = explored(bounds);
    assertExplored(result);
    expect(result.states).toBeGreaterThan(1_000);
  });

  it('of three users with two forks and two deaths, likewise', () => {
    const result = explored({ users: 3, forks: 2, crashes: 2 });
    assertExplored(result);
    expect(result.states).toBeGreaterThan(100_000);
  });
});

describe('what each rule is for', patient, () => {
  it('R1: without tombstones a repeated request brings a deleted fork back', () => {
    const result = explored({
      users: 2,
      forks: 2,
      network: 'any order',
      duplicates: 1,
      rules: { tombstones: false },
    });
    expect(result.violation?.detail).toContain('leak at the owner');
  });

  it("R2': a parent released at the death of its child's holder loses the grandchild under way", () => {
    const result = explored({ users: 3, forks: 3, crashes: 1, rules: { childrenWaitForFence: false } });
    expect(result.violation?.detail).toContain('freed while');
    expect(result.violation?.trace.filter((label) => label.endsWith('dies'))).toHaveLength(1);
  });

  it("R3': forks released at the death of their holder lose what it handed on", () => {
    const result = explored({ users: 2, forks: 3, crashes: 1, rules: { forksWaitForFence: false } });
    expect(result.violation?.detail).toContain('freed while');
  });

  it("R3': a death that counts as an acknowledgement releases forks whose children are under way", () => {
    const bounds: Bounds = { users: 3, forks: 3, crashes: 2 };
    const weak: Bounds = { ...bounds, rules: { deathExtendsFence: false } };
    const { violation } = explored(weak);
    expect(violation?.detail).toContain('freed while');
    const labels = violation?.trace ?? [];
    expect(labels.filter((label) => label.endsWith('dies'))).toHaveLength(2);
    // The same steps, with all rules.
    expect(follow(weak, labels)).toBe(violation?.detail);
    expect(follow(bounds, labels)).toBeUndefined();
  });
});
