/** @file Many simulated workers that join, leave, crash, pause and lose links: what the membership classes promise, and that it is noticed when they do not. */
import { formatTotals, runSeeds, SeedFailure } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { membershipSuite, SOUND, type MembershipRun } from '../../sim/membership/suite.ts';

const SMALL = { workers: 24, forMs: 200_000 };

describe('a group that changes', () => {
  it('has one view after the other, one life of a name, and barriers that wait for everybody', async () => {
    const runs: MembershipRun[] = [];
    const suite = membershipSuite(SMALL, SOUND, (run) => runs.push(run));
    console.log(formatTotals(await runSeeds(suite, { count: 20, recheckEvery: 10 })));
    // A run that never gets to what is interesting proves nothing.
    for (const kind of [
      'joins',
      'batches',
      'leaves',
      'deaths',
      'fenced',
      'refused',
      'released',
      'broken',
      'late',
    ] as const)
      expect(
        runs.reduce((sum, { counts }) => sum + counts[kind], 0),
        kind,
      ).toBeGreaterThan(0);
  }, 120_000);

  it.each([
    ['a newcomer does not ask whether the one of its name lives', { ...SOUND, usurps: true }, 'one life of a name'],
    ['whoever stands at the door looks at nothing', { ...SOUND, waves: true }, 'one life of a name'],
    ['a barrier goes on when most have come', { ...SOUND, hurries: true }, 'barriers never release early'],
    ['the store sets a view without comparing', { ...SOUND, blind: true }, 'views are totally ordered'],
  ])(
    'is caught when %s',
    async (_what, rules, rule) => {
      const options = { count: 20, recheckEvery: 0, shrinkAttempts: 0 };
      const failure: unknown = await runSeeds(membershipSuite(SMALL, rules), options).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(SeedFailure);
      expect((failure as SeedFailure).message).toContain(rule);
    },
    120_000,
  );
});
