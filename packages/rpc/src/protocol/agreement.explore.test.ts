/** @file All that can happen to three members of whom one dies, stands still or is cut off, and that the old rules are found out. */
import { explore } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { membershipModel, type Scenario } from '../../explore/membership/model.ts';
import { scenarios } from '../../explore/membership/scenarios.ts';
import type { AgreementRules } from './opinions.ts';

const SMALL = scenarios([3]).filter(({ name }) => !name.includes('mended') && !name.includes('apart'));

function named(name: string): Scenario {
  const found = scenarios([3, 4]).find((scenario) => scenario.name === name);
  if (found === undefined) throw new Error(`no scenario '${name}'`);
  return found;
}

describe('three members', () => {
  it.each(SMALL.map((scenario) => [scenario.name, scenario] as const))('%s', (_name, scenario) => {
    const { violation, complete, terminals } = explore(membershipModel({ ...scenario, prompt: true }), {
      maxStates: 20_000,
    });
    expect([violation, complete]).toEqual([undefined, true]);
    // Else nothing was said about how it ends.
    expect(terminals).toBeGreaterThan(0);
  });
});

/** Two halves without the store, one of which knows that the other does not answer. */
const HALVES = [
  'event cut',
  ...[0, 1, 2, 3].map((rank) => `store ${rank}`),
  'notice 0 of 2',
  'notice 0 of 3',
  'notice 1 of 2',
];

it.each<[string, string, Partial<AgreementRules>, string, string[]?]>([
  [
    'one silent member and a silent store are reason to stop',
    '3 workers, 0 dies (silent), store away, back same',
    { standing: false },
    'stop',
  ],
  ['two accusers put anybody out', '4 workers, cut 01|23, store with all', { parts: false }, 'ended'],
  [
    'any part decides without the store',
    '4 workers, cut 01|23, store with nobody',
    { quorum: false },
    'decided',
    HALVES,
  ],
  ['who stands still counts as silent', '3 workers, 0 stands still, store away, back same', { patience: false }, ''],
])(
  'the exploration finds it when %s',
  (_what, name, rules, text, begun = []) => {
    const { violation } = explore(membershipModel({ ...named(name), rules, begun, prompt: true }), {
      maxStates: 100_000,
    });
    expect(violation).toBeDefined();
    expect(JSON.stringify(violation)).toContain(text);
  },
  120_000,
);
