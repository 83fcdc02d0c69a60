/** @file Lanes of intervals: as the plain way to place them, and quickly where all lie across each other. */
import { Random } from '@backwire/testing';
import { expect, it } from 'vitest';
import { Lanes } from './lanes.ts';

/** Looks at every lane for every interval. */
class PlainLanes {
  private readonly open: number[][] = [];

  place(start: number, end: number, wished: number): number {
    for (const lane of [wished, ...this.open.keys()]) {
      const ends = this.open[lane];
      if (ends === undefined) continue;
      while (ends.length > 0 && (ends.at(-1) ?? 0) <= start) ends.pop();
      const innermost = ends.at(-1);
      if (innermost === undefined || end <= innermost) {
        ends.push(end);
        return lane;
      }
    }
    return this.open.push([end]) - 1;
  }
}

it('places drawn intervals as the plain way does', () => {
  for (let seed = 0; seed < 300; seed++) {
    const random = new Random(seed);
    const [lanes, plain] = [new Lanes(), new PlainLanes()];
    const longest = random.int(1, 60);
    let start = random.chance(0.2) ? -1e300 : 0;
    for (let i = 0; i < 200; i++) {
      start += random.int(0, 3);
      const end = start + random.int(0, longest);
      const wished = random.int(0, 6);
      expect(lanes.place(start, end, wished), `seed ${seed}, interval ${i}`).toBe(plain.place(start, end, wished));
    }
  }
});

it('places a hundred thousand that all lie across each other', () => {
  const lanes = new Lanes();
  const began = performance.now();
  for (let i = 0; i < 100_000; i++) expect(lanes.place(i, 1e6 + i, 0) === i).toBe(true);
  expect(lanes.count).toBe(100_000);
  // The plain way takes minutes.
  expect(performance.now() - began).toBeLessThan(10_000);
});
