/** @file A few thousand damaged inputs for every decoder; `npm run fuzz` does a million. */
import { describe, expect, it } from 'vitest';
import { fuzz } from '../fuzz/run.ts';

describe('damaged input', () => {
  it('is accepted or refused with a WireError by every decoder, and never takes long', () => {
    const report = fuzz(6000, 20_260_101);
    expect(report.failures).toEqual([]);
    // Both ways must be taken, or the damage is too light or too heavy to mean anything.
    expect(report.accepted).toBeGreaterThan(500);
    expect(report.refused).toBeGreaterThan(500);
    expect([...report.codes.keys()].sort()).toEqual(['decode-error', 'limit', 'protocol-error']);
    expect(report.slowestMs).toBeLessThan(2000);
  });
});
