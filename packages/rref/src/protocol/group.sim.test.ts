/** Random programs of whole groups in virtual time: members die, restart, pause and are cut off, and nothing is freed early or leaks. */
import { formatTotals, runSeeds, SeedFailure } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import type { SimRules } from '../../sim/group.ts';
import { rrefSuite, type Scenario } from '../../sim/suite.ts';

async function failureWithout(rules: Partial<SimRules>, first: number): Promise<SeedFailure & { scenario: Scenario }> {
  const failure: unknown = await runSeeds(rrefSuite({ rules }), { count: 1_000, first, recheckEvery: 0 }).catch(
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(SeedFailure);
  return failure as SeedFailure & { scenario: Scenario };
}

const crashes = ({ faults }: Scenario): number => faults.filter(({ kind }) => kind === 'crash').length;

describe('a simulated group', { timeout: 180_000 }, () => {
  it('keeps what is held and lets go of the rest, over three hundred seeds', async () => {
    const suite = rrefSuite();
    const totals = await runSeeds(suite, { count: 300, recheckEvery: 10 });
    console.log(formatTotals(totals), suite.coverage);
    expect(totals).toMatchObject({ seeds: 300, rechecked: 30 });
    expect(totals.events).toBeGreaterThan(50_000);
    const { unstarted, ...often } = suite.coverage;
    for (const count of Object.values(often)) expect(count).toBeGreaterThan(50);
    expect(unstarted).toBeGreaterThan(0);
  });

  it('does so with fifty workers', async () => {
    const suite = rrefSuite({ workers: 50 });
    const totals = await runSeeds(suite, { count: 8, recheckEvery: 4 });
    console.log(formatTotals(totals), suite.coverage);
    expect(suite.coverage.freed).toBeGreaterThan(200);
  });

  // The seeds begin shortly before one that fails; `npm run sim` with the rule taken away goes through all of them.
  it('frees too early when a child at a dead worker counts as accepted at once', async () => {
    const { message, scenario } = await failureWithout({ childrenWaitForFence: false }, 3_500);
    expect(message).toContain('S1: freed too early');
    expect(scenario.operations.length).toBeLessThanOrEqual(8);
    expect(crashes(scenario)).toBe(1);
  });

  it('frees too early when the forks of the dead are released at once; the run found is small', async () => {
    const { message, scenario } = await failureWithout({ forksWaitForFence: false }, 1);
    expect(message).toContain('S1: freed too early');
    expect(scenario.operations.length).toBeLessThanOrEqual(6);
    expect(crashes(scenario)).toBe(1);
  });

  it('goes wrong when a death during a fence counts as an acknowledgement', async () => {
    const { message, scenario } = await failureWithout({ deathExtendsFence: false }, 3_800);
    expect(message).toMatch(/freed too early|not settled/);
    expect(crashes(scenario)).toBe(2);
  });

  it('never comes to rest when handles in calls that never start are not let go', async () => {
    const { message, scenario } = await failureWithout({ givesBackUnstarted: false }, 1);
    expect(message).toContain('not settled');
    expect(crashes(scenario)).toBeGreaterThan(0);
  });
});
