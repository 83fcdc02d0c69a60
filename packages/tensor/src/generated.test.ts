/** @file What is generated from the sources of this package is current. */
import { threadTexts } from '@backwire/testing';
import { expect, test } from 'vitest';

test('the text of each thread is what its source gives', () => {
  const { checkedIn, fresh } = threadTexts('tensor');
  // The kernels are looked at in simd.test.ts.
  expect(Object.keys(checkedIn).filter((file) => file !== 'simd.ts')).toEqual(Object.keys(fresh));
  for (const [file, text] of Object.entries(fresh))
    expect(checkedIn[file] === text, `${file}: run npm run generate -w @backwire/tensor`).toBe(true);
});
