/** Random programs of whole groups in virtual time: members die, restart, pause and are cut off, and nothing is freed early or leaks. */
import { formatTotals, runSeeds, SeedFailure } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { rrefSuite, type Scenario } from '../../sim/suite.ts';
import type { Rules } from './rules.ts';

async function failureWithout(rules: Partial<Rules>): Promise<SeedFailure & { scenario: Scenario }> {
  const failure: unknown = await runSeeds(rrefSuite(rules), { count: 4_000, recheckEvery: 0 }).catch(
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(SeedFailure);
  return failure as SeedFailure & { scenario: Scenario };
}

describe('a simulated group', { timeout: 180_000 }, () => {
  it('keeps what is held and lets go of the rest, over three hundred seeds', async () => {
    const totals = await runSeeds(rrefSuite(), { count: 300, recheckEvery: 10 });
    console.log(formatTotals(totals));
    expect(totals).toMatchObject({ seeds: 300, rechecked: 30 });
    expect(totals.events).toBeGreaterThan(50_000);
  });

  it('frees too early when the forks of the dead are released at once; the run found is small', async () => {
    const { message, scenario } = await failureWithout({ forksWaitForFence: false });
    expect(message).toContain('freed too early');
    expect(scenario.operations.length).toBeLessThanOrEqual(6);
    expect(scenario.faults.filter(({ kind }) => kind === 'crash')).toHaveLength(1);
  });

  it('frees too early when a death during a fence counts as an acknowledgement', async () => {
    const { message, scenario } = await failureWithout({ deathExtendsFence: false });
    expect(message).toContain('freed too early');
    expect(scenario.faults.filter(({ kind }) => kind === 'crash')).toHaveLength(2);
  });
});
