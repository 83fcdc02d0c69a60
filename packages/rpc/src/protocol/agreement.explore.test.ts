/** @file All that can happen to three members of whom one dies, stands still or is cut off, and that the old rules are found out. */
import { exploreRows, HashSet64, type Exploration } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import type { Scenario } from '../../explore/membership/bounds.ts';
import { exact, reduced, type Forms } from '../../explore/membership/forms.ts';
import { scenarios } from '../../explore/membership/scenarios.ts';
import { Worlds } from '../../explore/membership/world.ts';
import type { AgreementRules } from './opinions.ts';

/** Those that take seconds are left to `npm run explore`. */
const THREE = scenarios([3]).filter(({ name }) => !/mended, store (away|down)|down, back/.test(name));
const FOUR = [
  '4 workers, 0 dies (silent), store away, back same',
  '4 workers, 3 dies (refused), store down for good',
  '4 workers, 0 and 1 apart, store away, back empty',
  '4 workers, cut 01|23, store with 23',
].map(named);

/** A store that is down makes no difference to three, and what happens to the youngest mirrors what happens to the oldest. */
const COMPARED = [
  ...THREE.filter(({ name }) => !/down|2 dies|01\|2|1 and 2/.test(name)),
  named('4 workers, cut 0|123, store with 123'),
];

function named(name: string): Scenario {
  const found = scenarios([3, 4]).find((scenario) => scenario.name === name);
  if (found === undefined) throw new Error(`no scenario '${name}'`);
  return found;
}

describe('three members, and some of four', () => {
  it.each([...THREE, ...FOUR].map((scenario) => [scenario.name, scenario] as const))('%s', (_name, scenario) => {
    const { violation, complete, terminals } = exploreRows(new Worlds({ ...scenario, prompt: true }), {
      maxStates: 50_000,
    });
    expect([violation, complete]).toEqual([undefined, true]);
    // Else nothing was said about how it ends.
    expect(terminals).toBeGreaterThan(0);
  });
});

/** What is ever true of a group, and how it comes to rest. */
interface Seen {
  readonly result: Exploration<string>;
  readonly verdicts: readonly string[];
  readonly ends: readonly string[];
}

function seen(scenario: Scenario, forms: Forms, ...states: HashSet64[]): Seen {
  const worlds = new Worlds(scenario, forms);
  const textOf = worlds.textsBy(reduced);
  const [verdicts, ends] = [new Set<string>(), new Set<string>()];
  const result = exploreRows({
    name: worlds.name,
    width: worlds.width,
    initial: () => worlds.initial(),
    steps: (from, emit) => worlds.steps(from, emit),
    invariant: (row) => {
      for (const each of states) each.add(textOf(row));
      verdicts.add(worlds.rows.verdict(row));
      return worlds.invariant(row);
    },
    terminal: (row) => {
      ends.add(worlds.rows.verdict(row));
      return worlds.terminal(row);
    },
  });
  return { result, verdicts: [...verdicts].sort(), ends: [...ends].sort() };
}

describe('what is left out of states', () => {
  it.each(COMPARED.map((scenario) => [scenario.name, scenario] as const))('is not missed: %s', (_name, scenario) => {
    const [found, both] = [new HashSet64(), new HashSet64()];
    const all = seen({ ...scenario, prompt: true }, exact, found, both);
    const few = seen({ ...scenario, prompt: true }, reduced, both);
    expect([all.result.complete, few.result.complete]).toEqual([true, true]);
    expect([all.verdicts, all.ends]).toEqual([few.verdicts, few.ends]);
    // By what matters of them, the states of both searches are the same.
    expect([found.size, both.size]).toEqual([few.result.states, few.result.states]);
  });
});

describe.each([
  ['all that they are', exact],
  ['what matters of them', reduced],
] as const)('an exploration that tells states apart by %s', (_what, forms) => {
  it.each<[string, string, Partial<AgreementRules>, string]>([
    [
      'one silent member and a silent store are reason to stop',
      '3 workers, 0 dies (silent), store away, back same',
      { standing: false },
      'stop',
    ],
    ['two accusers put anybody out', '4 workers, cut 01|23, store with all', { parts: false }, 'ended'],
    ['any part decides without the store', '4 workers, cut 01|23, store with nobody', { quorum: false }, 'decided'],
    ['who stands still counts as silent', '3 workers, 0 stands still, store away, back same', { patience: false }, ''],
  ])(
    'finds it when %s',
    (_rule, name, rules, text) => {
      const worlds = new Worlds({ ...named(name), rules, prompt: true }, forms);
      const { violation } = exploreRows(worlds, { maxStates: 1_000_000 });
      expect(violation).toBeDefined();
      expect(JSON.stringify(violation)).toContain(text);
    },
    120_000,
  );
});
