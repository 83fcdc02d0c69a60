/** @file What a worker that was put out is told of its own absence. */
import { expect, it } from 'vitest';
import { Absence } from './absence.ts';

const LEASE_MS = 10_000;
const WHY = 'the group has removed this worker';

it('says how long it stood still, while that is the reason', () => {
  const absence = new Absence(LEASE_MS);
  expect(absence.explain(WHY, 0)).toBe(WHY);
  absence.stoodStill(4_999, 10_000);
  expect(absence.explain(WHY, 10_000)).toBe(WHY);
  absence.stoodStill(61_240, 80_000);
  absence.stoodStill(500, 80_500);
  expect(absence.explain(WHY, 109_999)).toBe(`${WHY}: this worker stood still for 61.2 s`);
  expect(absence.explain(WHY, 110_000)).toBe(WHY);
});

it('says how long its store has been out of reach, or was', () => {
  const absence = new Absence(LEASE_MS);
  absence.storeIs(true, 0);
  absence.storeIs(false, 1_000);
  absence.storeIs(false, 3_000);
  expect(absence.explain(WHY, 5_999)).toBe(WHY);
  expect(absence.explain(WHY, 13_500)).toBe(`${WHY}: its store was out of reach for 12.5 s`);
  absence.storeIs(true, 21_000);
  absence.storeIs(true, 22_000);
  expect(absence.explain(WHY, 50_999)).toBe(`${WHY}: its store was out of reach for 20.0 s`);
  expect(absence.explain(WHY, 51_000)).toBe(WHY);
  absence.storeIs(false, 60_000);
  absence.storeIs(true, 61_000);
  expect(absence.explain(WHY, 61_000)).toBe(WHY);
});

it('says both', () => {
  const absence = new Absence(LEASE_MS);
  absence.storeIs(false, 1_000);
  absence.stoodStill(20_000, 30_000);
  const both = 'this worker stood still for 20.0 s, and its store was out of reach for 29.0 s';
  expect(absence.explain(WHY, 30_000)).toBe(`${WHY}: ${both}`);
});
