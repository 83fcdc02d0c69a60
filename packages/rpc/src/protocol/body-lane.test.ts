/** @file Storages on their way, in and out: complete once, in pieces that come in order, however many a message has. */
import { processorMs } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { BodyLane, type InBody } from './body-lane.ts';

/** The most that one message may have. */
const MOST = 65_535;

describe('the storages of a message that arrive', () => {
  it('make it complete with the last piece of the last of them, which nothing empty can be', () => {
    const lane = new BodyLane();
    lane.expect(7, [
      { storage: 0, bytes: 2 },
      { storage: 3, bytes: 1 },
    ]);
    const at = (storage: number, offset: number, bytes: number): InBody | string =>
      lane.place(7, storage, offset, bytes);
    const first = at(0, 0, 2) as InBody;
    expect(lane.landed(first, 2)).toBe(false);
    for (let i = 0; i < 3; i++) expect(lane.landed(at(0, 2, 0) as InBody, 0)).toBe(false);
    expect([at(0, 2, 1), at(1, 0, 1), at(3, 1, 0), at(3, 0, 2)]).toEqual(['wrong', 'wrong', 'wrong', 'wrong']);
    expect(lane.positions()).toEqual([
      { seq: 7, storage: 0, bytes: 2 },
      { seq: 7, storage: 3, bytes: 0 },
    ]);
    expect(lane.landed(at(3, 0, 1) as InBody, 1)).toBe(true);
    expect(at(3, 1, 0)).toBe('unknown');
    expect(lane.positions()).toEqual([]);
  });

  it('take no longer each where there are many', () => {
    const lane = new BodyLane();
    const storages = Array.from({ length: MOST }, (_, storage) => ({ storage, bytes: 1 }));
    lane.expect(1, storages);
    let complete = 0;
    const took = processorMs(() => {
      for (let storage = 0; storage < MOST; storage++)
        if (lane.landed(lane.place(1, storage, 0, 1) as InBody, 1)) complete++;
    });
    expect(complete).toBe(1);
    expect(took).toBeLessThan(5_000);
  });
});

describe('the storages of a message that leave', () => {
  it('are over once each is confirmed, and take no longer each where there are many', () => {
    const lane = new BodyLane<string>();
    lane.send(
      1,
      Array.from({ length: MOST }, (_, storage) => ({ storage, bytes: 1, body: `${storage}` })),
    );
    const took = processorMs(() => {
      for (let storage = 0; storage < MOST - 1; storage++) lane.confirmed(1, storage);
    });
    expect(took).toBeLessThan(5_000);
    expect([lane.confirmed(1, 5), lane.confirmed(1, MOST)]).toEqual([undefined, undefined]);
    expect(lane.drop(1).map(({ body }) => body)).toEqual([`${MOST - 1}`]);
    expect([lane.drop(1), lane.pendingBytes, lane.hasMore()]).toEqual([[], 0, true]);
    expect([lane.next(8), lane.hasMore()]).toEqual([undefined, false]);
  });
});
