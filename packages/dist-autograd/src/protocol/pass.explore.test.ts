import { describe, expect, it } from 'vitest';
import { assertExplored, explore, formatExploration } from '@backwire/testing';
import { CHAIN, DETOUR, DETOUR_LATER, SPARE, STAR, TRIANGLE, TWO_ORIGINS } from '../../explore/graphs.ts';
import { passModel, type Bounds } from '../../explore/pass-model.ts';

function check(bounds: Bounds): number {
  const result = explore(passModel(bounds), { maxStates: 100_000 });
  console.log(formatExploration(result));
  assertExplored(result);
  return result.states;
}

describe('every order of messages of a pass over three workers', { timeout: 120_000 }, () => {
  it.each<[string, Partial<Bounds>]>([
    ['undisturbed', {}],
    ['given up at any time', { timeout: true }],
    ['with a function that throws next door', { breaks: { worker: 1, send: 1 } }],
    ['with a function that throws at the far end', { breaks: { worker: 2, send: 3 } }],
    ['with a worker that dies at any time', { mayDie: 2 }],
    ['with a worker on the way that dies at any time', { mayDie: 1 }],
    ['over a chain, with the worker in its middle that dies at any time', { mayDie: 1, graph: CHAIN, passes: 2 }],
    ['whose origin dies at any time', { mayDie: 0 }],
    ['with two origins', { origins: [0, 2], graph: TWO_ORIGINS }],
    ['that is given up at any time and tried again', { timeout: true, passes: 2, graph: CHAIN }],
    [
      'that is given up, and tried again over another way',
      { timeout: true, passes: 2, graph: DETOUR, later: DETOUR_LATER },
    ],
    ['planned', { planned: true }],
    ['planned, and given up at any time', { planned: true, timeout: true }],
    ['planned, with a function that throws at the far end', { planned: true, breaks: { worker: 2, send: 3 } }],
    ['planned, with a worker on the way that dies at any time', { planned: true, mayDie: 1 }],
    [
      'planned, over a chain, with the worker in its middle that dies at any time',
      { planned: true, mayDie: 1, graph: CHAIN },
    ],
    ['planned, with two origins', { planned: true, origins: [0, 2], graph: TWO_ORIGINS }],
    ['beside one that cannot begin', { refuses: true, passes: 2 }],
    ['beside a neighbour that names one far ahead as failed', { lies: 1, passes: 2, graph: CHAIN, timeout: true }],
    ['planned, beside a worker at the far end that does', { planned: true, lies: 2, passes: 2, graph: CHAIN }],
    ['in fast mode', { fast: true, timeout: true, graph: CHAIN }],
    ['in fast mode with two origins', { fast: true, origins: [0, 2], graph: TWO_ORIGINS, timeout: true }],
    ['in fast mode with a worker on the way that dies at any time', { fast: true, mayDie: 1 }],
    ['in fast mode over a chain, with the worker in its middle that dies', { fast: true, mayDie: 1, graph: CHAIN }],
    [
      'in fast mode, with the worker between a call that nothing depends on that dies',
      { fast: true, mayDie: 1, graph: SPARE },
    ],
    ['between workers that know the one which dies, and no other', { graph: STAR, origins: [2], mayDie: 1, passes: 2 }],
    ['over a star, of which the creator dies', { graph: STAR, origins: [2], mayDie: 0, passes: 2, timeout: true }],
    ['over a star, of which a far worker dies', { graph: STAR, origins: [2], mayDie: 3 }],
    ['planned, between such workers', { planned: true, graph: STAR, origins: [2], mayDie: 1, passes: 2 }],
    ['with two origins, and the worker between them that dies', { origins: [0, 2], graph: TWO_ORIGINS, mayDie: 1 }],
    ['in fast mode with a call further on that nothing depends on', { fast: true, timeout: true, graph: SPARE }],
    ['in fast mode with a call that nothing depends on', { fast: true, timeout: true }],
  ])('%s: ends, answers everything once, adds all gradients or none', (_, bounds) => {
    expect(check({ graph: TRIANGLE, ...bounds })).toBeGreaterThan(10);
  });
});
