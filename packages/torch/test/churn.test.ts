/** @file The judgement of calls to workers that come, go and die, which the acceptance suite of that name makes. */
import { describe, expect, it } from 'vitest';
import { WRONG, explain, fates, type Call, type Life } from '../acceptance/churn/lives.ts';

const lives: Life[] = [
  { name: 'anchor', born: 0, here: 0, going: Infinity, gone: Infinity, how: 'left' },
  { name: 'w0', born: 1_000, here: 1_050, going: 2_000, gone: 2_100, how: 'left' },
  { name: 'k0', born: 1_000, here: Infinity, going: 1_500, gone: 1_800, how: 'killed' },
  { name: 'w0', born: 2_200, here: 2_240, going: 3_000, gone: 3_100, how: 'left' },
];
const call = (callee: string, start: number, end: number, error: string | null = 'RuntimeError: eof'): Call => ({
  callee,
  start,
  end,
  error,
});
const judged = (...calls: Call[]): unknown => {
  const { answered, joining, leaving, killed, unexplained } = fates(calls, lives);
  return { answered, joining, leaving, killed, unexplained };
};

describe('calls that fail', () => {
  it.each([
    ['under way when their callee begins to leave', call('w0', 1_900, 2_000)],
    ['begun while it leaves', call('w0', 2_050, 2_060)],
    ['begun at its last moment, and answered late', call('w0', 2_100, 7_100)],
    ['begun before it left, and ended in its next life', call('w0', 1_990, 2_300)],
    ['of its second leaving', call('w0', 2_900, 3_050)],
  ])('are explained: %s', (_, each) => {
    expect(judged(each)).toEqual({ answered: 0, joining: 0, leaving: 1, killed: 0, unexplained: [] });
  });

  it.each([
    ['at its death', call('k0', 1_400, 1_500)],
    ['begun before it was put out', call('k0', 1_800, 6_800)],
  ])('are explained by a death: %s', (_, each) => {
    expect(judged(each)).toEqual({ answered: 0, joining: 0, leaving: 0, killed: 1, unexplained: [] });
  });

  const homeless = 'RuntimeError: name:py1,rank:1 could not find destination url for name w0';

  it.each([
    ['while it joins', call('w0', 1_010, 1_011, homeless)],
    ['while it joins again', call('w0', 2_240, 2_241, homeless)],
    ['while one joins that is killed before it is there', call('k0', 1_498, 1_499, homeless)],
  ])('are explained by an address that torch has not got yet: %s', (_, each) => {
    expect(judged(each)).toEqual({ answered: 0, joining: 1, leaving: 0, killed: 0, unexplained: [] });
  });

  it.each([
    ['it had no address, and was there', call('w0', 2_241, 2_242, homeless)],
    ['their callee was there all the time', call('w0', 1_100, 1_999)],
    ['it was in its second life', call('w0', 2_250, 2_990)],
    ['it was joining again', call('w0', 2_200, 2_210)],
    ['it had left before, and nobody of that name was there', call('w0', 2_101, 2_150)],
    ['it was dead and put out', call('k0', 1_801, 1_900)],
    ['it never leaves', call('anchor', 0, 5_000)],
    ['nobody was ever called that', call('w9', 1_000, 1_001)],
    ['it was leaving, and the answer was wrong', call('w0', 2_010, 2_020, WRONG)],
    ['only another was leaving', call('k0', 2_000, 2_050)],
  ])('are not: %s', (_, each) => {
    expect(judged(each)).toEqual({ answered: 0, joining: 0, leaving: 0, killed: 0, unexplained: [each] });
  });
});

it('finds the one call without a reason among many', () => {
  const planted = call('w0', 2_300, 2_400, 'RuntimeError: RPC ran for more than set timeout');
  const many = Array.from({ length: 100 }, (_, i) => [
    call('anchor', 10 * i, 10 * i + 5, null),
    call('w0', 2_000 + i, 2_001 + i),
    call('k0', 1_500 + i, 1_501 + i),
  ]).flat();
  many.splice(150, 0, planted);
  expect(fates(many, lives)).toEqual({
    calls: 301,
    answered: 100,
    joining: 0,
    leaving: 100,
    killed: 100,
    unexplained: [planted],
  });
  expect(explain(planted, lives)).toBe(
    "a call to 'w0' failed after 100 ms (RuntimeError: RPC ran for more than set timeout); " +
      'it was born at -1300 ms, here at -1250 ms, left from -300 ms to -200 ms; ' +
      'born at -100 ms, here at -60 ms, left from 700 ms to 800 ms',
  );
});

it('takes answers from whomever they come', () => {
  expect(judged(call('w0', 2_150, 2_160, null))).toEqual({
    answered: 1,
    joining: 0,
    leaving: 0,
    killed: 0,
    unexplained: [],
  });
});
