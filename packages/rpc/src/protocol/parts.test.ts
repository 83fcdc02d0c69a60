/** @file Which part of a group stays when members claim to be it. */
import { describe, expect, it } from 'vitest';
import { verdictOf, type Claim } from './parts.ts';

const ALL = ['a', 'b', 'c', 'd'];

/** Everybody of a part says the same: the others are in doubt. */
function claimsOf(...parts: readonly string[][]): Claim[] {
  return parts.flatMap((part) => part.map((by) => ({ by, part, doubts: ALL.filter((life) => !part.includes(life)) })));
}

function losers(claims: readonly Claim[], late = false): string[] | undefined {
  const verdict = verdictOf(ALL, claims, late);
  return verdict && [...verdict.losers];
}

describe('the part that stays', () => {
  it('is the largest', () => expect(losers(claimsOf(['a'], ['b', 'c', 'd']))).toEqual(['a']));
  it('of equal ones has the oldest member', () => expect(losers(claimsOf(['c', 'b'], ['d', 'a']))).toEqual(['b', 'c']));
  it('of singles is the oldest', () => expect(losers(claimsOf(['a'], ['b'], ['c'], ['d']))).toEqual(['b', 'c', 'd']));
  it('is everybody when two do not hear each other and a third hears both', () => {
    const claims = [
      { by: 'a', part: ['a', 'c', 'd'], doubts: ['b'] },
      { by: 'b', part: ['b', 'c', 'd'], doubts: ['a'] },
    ];
    expect(losers(claims)).toEqual([]);
  });
});

describe('nobody is put out', () => {
  it('by one accuser alone', () =>
    expect(losers([{ by: 'a', part: ['a', 'b', 'c'], doubts: ['d'] }], true)).toEqual([]));
  it('before everybody who may has claimed something', () => {
    expect(losers(claimsOf(['a', 'b']))).toBeUndefined();
    expect(losers(claimsOf(['a', 'b']), true)).toEqual(['c', 'd']);
  });
  it('by claims of those that are no members any more', () => {
    const stale = ['x', 'y'].map((by) => ({ by, part: ['x', 'y'], doubts: ALL }));
    expect(losers([...stale, ...claimsOf(ALL)])).toEqual([]);
  });
});
