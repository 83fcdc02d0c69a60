/** @file When a host that gives no sign of life is gone, and when its store may have lost the sign. */
import { expect, it } from 'vitest';
import { HOST_LEASE_MS } from './limits.ts';
import { StoreOutage } from './store-outage.ts';

it('a store that answers lets every host be judged', () => {
  const outage = new StoreOutage();
  outage.answered(1_000, 3);
  expect(outage.isJudge(1_000)).toBe(true);
});

it('after an outage hosts have the time of a lease, from the last failure on', () => {
  const outage = new StoreOutage();
  expect(outage.failed(1_000)).toBe(0);
  expect(outage.failed(4_000)).toBe(3_000);
  outage.answered(4_250, 3);
  expect(outage.isJudge(4_000 + HOST_LEASE_MS - 1)).toBe(false);
  expect(outage.isJudge(4_000 + HOST_LEASE_MS)).toBe(true);
  // The next one is counted anew.
  expect(outage.failed(90_000)).toBe(0);
});

it('an answer that took as long as leases are not renewed is of a store that stood still', () => {
  const outage = new StoreOutage();
  outage.answered(1_000, HOST_LEASE_MS / 2);
  expect(outage.isJudge(1_000)).toBe(true);
  outage.answered(9_000, HOST_LEASE_MS / 2 + 1);
  expect(outage.isJudge(9_000)).toBe(false);
});
