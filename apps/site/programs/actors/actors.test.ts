/** @file The actors and the learner of the guide, as a group of processes. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { tensor } from 'backwire';
import { printed } from '../../test/started.ts';
import { Learner } from './learner.ts';

it('three actors play forty rounds with one learner', { timeout: 120_000 }, async () => {
  const output = await printed({ program: join(import.meta.dirname, 'main.ts'), processes: 4 });
  const rounds = [...output.matchAll(/round (\d+): the poles stood (\d+) steps/g)];
  expect(rounds.map(([, round]) => Number(round))).toEqual([10, 20, 30, 40]);
});

it('the learner answers when everybody who plays has asked', async () => {
  const learner = new Learner(3);
  const answered: number[] = [];
  const asked = [0, 1].map(async (actor) => {
    const action = await learner.act(actor, tensor([0, 0, 0, 0]));
    answered.push(actor);
    return action;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(answered).toEqual([]);
  learner.ended();
  for (const action of await Promise.all(asked)) expect([0, 1]).toContain(action);
});

it('the learner goes on with those who are left when an actor has died', async () => {
  const learner = new Learner(3);
  const state = tensor([0, 0, 0, 0]);
  const round = (actors: readonly number[]): Promise<number[]> =>
    Promise.all(actors.map((actor) => learner.act(actor, state)));
  await round([0, 1, 2]);
  const asked = round([0, 1]);
  learner.ended(); // of the third, which is gone
  await asked;
  for (const _ of [0, 1]) learner.ended();
  learner.learn(2);
  expect(await round([0, 1])).toHaveLength(2);
}, 5_000);

it('the learner gets better at a game in which it ought to push right', async () => {
  const learner = new Learner(1);
  const state = tensor([0.1, 0, 0, 0]);
  let right = 0;
  for (let round = 0; round < 60; round++) {
    // The episode goes on for as long as it pushes right.
    let steps = 0;
    while (steps < 20 && (await learner.act(0, state)) === 1) steps++;
    learner.ended();
    learner.learn(1);
    if (round >= 50) right += steps;
  }
  expect(right / 10).toBeGreaterThan(5);
});
