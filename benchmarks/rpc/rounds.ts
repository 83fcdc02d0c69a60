/** @file Blocks of several contestants in turns, so that whatever else the machine does hits all of them. */
import type { Contestant } from '../measure.ts';
import { rowOf, type Row } from '../suite.ts';

/** Who is compared with whom: ours first. */
export type Pairing = readonly [ours: string, against: string];

/** What came out of the rounds of one measurement: by contestant, a number a round. */
export type Rounds = ReadonlyMap<string, number[]>;

/** Runs `block` for each contestant in each of the rounds; those that cannot do it are left out. */
export async function inTurns<T>(
  all: readonly Contestant[],
  rounds: number,
  block: (contestant: Contestant) => Promise<T> | undefined,
): Promise<Map<string, T[]>> {
  const results = new Map<string, T[]>();
  for (let round = 0; round < rounds; round++) {
    for (const contestant of all) {
      const result = await block(contestant);
      if (result === undefined) continue;
      const own = results.get(contestant.name);
      if (own === undefined) results.set(contestant.name, [result]);
      else own.push(result);
    }
  }
  return results;
}

/** The rows of those pairs of which both took part. Names of contestants other than the plain one end in what sets them apart. */
export function rowsOf(
  about: Pick<Row, 'name' | 'unit' | 'better'>,
  rounds: Rounds,
  pairings: readonly Pairing[],
): Row[] {
  return pairings.flatMap(([ours, against]) => {
    const [own, others] = [rounds.get(ours), rounds.get(against)];
    if (own === undefined || others === undefined) return [];
    const variant = ours.replace(/^Backwire,? ?/, '');
    const name = variant === '' ? about.name : `${about.name}, ${variant}`;
    return [rowOf({ ...about, name, against }, own, others)];
  });
}

/** `map` over the numbers of each contestant. */
export function mapRounds<T>(rounds: ReadonlyMap<string, readonly T[]>, map: (result: T) => number): Rounds {
  return new Map([...rounds].map(([name, results]) => [name, results.map(map)]));
}
