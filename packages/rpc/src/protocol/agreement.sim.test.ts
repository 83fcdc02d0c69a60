/** @file Small simulated groups in doubt: store outages, deaths, stalls and cuts of all kinds, and that each part of the rule is missed when it is not there. */
import { formatTotals, runSeeds, SeedFailure } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { STORE } from '../../sim/doubt/messages.ts';
import type { Episode } from '../../sim/doubt/scenario.ts';
import { SOUND } from '../../sim/doubt/sim-member.ts';
import { doubtSuite, type DoubtRun } from '../../sim/doubt/suite.ts';

describe('a group in doubt', () => {
  it('loses nobody who is well, notices the dead, decides one thing, and is whole again in the end', async () => {
    const runs: DoubtRun[] = [];
    const suite = doubtSuite(SOUND, (run) => runs.push(run));
    console.log(formatTotals(await runSeeds(suite, { count: 15, recheckEvery: 5 })));
    // A run that never gets to what is interesting proves nothing.
    for (const kind of ['joins', 'evicted', 'decided', 'fenced', 'stopped', 'restored'] as const)
      expect(
        runs.reduce((sum, { counts }) => sum + counts[kind], 0),
        kind,
      ).toBeGreaterThan(0);
  }, 120_000);

  it('notices the death of one to whom nobody has a link, while the store was away that comes back with nothing', async () => {
    const death: Episode = {
      ...{ kind: 'death', at: 116_527, forMs: 6_244, harms: ['w2'], blocks: [] },
      faults: [
        { kind: 'crash', at: 113_527, node: STORE, restartAfterMs: 14_244 },
        { kind: 'crash', at: 116_527, node: 'w2', restartAfterMs: 36_244 },
      ],
    };
    const runs: DoubtRun[] = [];
    await doubtSuite(SOUND, (run) => runs.push(run)).run({ seed: 657, workers: 3, episodes: [death], linked: [] });
    expect(runs[0]?.counts.restored).toBe(1);
    expect(runs[0]?.counts.evicted).toBeGreaterThan(0);
  });

  it.each([
    ['one silent member and a silent store are reason enough to stop', 'standing', 'stops, and nothing was wrong'],
    ['two accusers put anybody out', 'parts', 'is put out by'],
    ['any part decides without the store', 'quorum', 'is put out by'],
    ['who stands still is doubted like one who is silent', 'patience', 'is put out by'],
    ['only members with a link are watched', 'watching', 'the dead are noticed'],
  ] as const)(
    'is caught when %s',
    async (_what, rule, text) => {
      const options = { count: 40, recheckEvery: 0, shrinkAttempts: 0 };
      const suite = doubtSuite({ ...SOUND, [rule]: false });
      const failure: unknown = await runSeeds(suite, options).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(SeedFailure);
      expect((failure as SeedFailure).message).toContain(text);
    },
    120_000,
  );
});
