/** @file What is generated from the sources of this package is current. */
import { threadTexts } from '@backwire/testing';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { argumentsText } from '../tools/argument-kinds.ts';
import { backendName } from './index.ts';

test('the text of each thread is what its source gives', () => {
  const { checkedIn, fresh } = threadTexts('tensor');
  // The kernels are looked at in simd.test.ts.
  const others = ['arguments.ts', 'simd.ts'];
  expect(Object.keys(checkedIn).filter((file) => !others.includes(file))).toEqual(Object.keys(fresh));
  for (const [file, text] of Object.entries(fresh))
    expect(checkedIn[file] === text, `${file}: run npm run generate -w @backwire/tensor`).toBe(true);
});

// It compiles the package, and is the same on every backend.
test.runIf(backendName() === 'cpu')(
  'what public functions take is what their types say',
  async () => {
    const checkedIn = readFileSync(new URL('gen/arguments.ts', import.meta.url), 'utf8');
    expect(checkedIn === (await argumentsText()), 'run npm run generate -w @backwire/tensor').toBe(true);
  },
  180_000,
);
