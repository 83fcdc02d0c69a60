/** @file torch's examples, split between torch and workers of this kind: the same losses as all of it in Python, and rewards that rise. */
import assert from 'node:assert/strict';
import type { Report } from '../report.ts';
import { ALL_TORCH, SPLITS, apart, train } from './parameter-server.ts';
import { ends, play } from './reinforcement.ts';

const STEPS = 100;
/** What losses may differ by, at every step. */
const TOLERANCE = 1e-5;
const OBSERVERS = 4;
const EPISODES = 40;
const EPISODE_STEPS = 200;
/** Steps of all observers together, in a second. */
const GOAL_STEPS_PER_SECOND = 2_000;

export async function examples(only: string, report: Report): Promise<void> {
  if ('parameter server'.includes(only) || only.includes('parameter')) await parameterServer(report);
  if ('reinforcement learning'.includes(only) || only.includes('reinforcement')) await reinforcement(report);
}

async function parameterServer(report: Report): Promise<void> {
  let torch: readonly number[] = [];
  await report.run(`parameter server, ${ALL_TORCH.name}: ${STEPS} steps`, async () => {
    torch = await train(ALL_TORCH, STEPS);
    const { first, last } = ends(torch);
    console.log(`        loss ${first.toFixed(3)} in the first fifth, ${last.toFixed(3)} in the last`);
    assert.ok(last < 0.75 * first, 'the loss does not fall');
  });
  if (torch.length === 0) return;
  for (const split of SPLITS)
    await report.run(`parameter server, ${split.name}: the losses of all in torch`, async () => {
      const { most, at } = apart(await train(split, STEPS), torch);
      console.log(`        at most ${most.toExponential(1)} apart, at step ${at} of ${STEPS}, goal ≤ ${TOLERANCE}`);
      assert.ok(most <= TOLERANCE, `${most} apart at step ${at}`);
    });
}

async function reinforcement(report: Report): Promise<void> {
  const speeds: number[] = [];
  for (const [name, place] of [
    ['all in torch', 'torch'],
    ['observers in Node', 'process'],
  ] as const)
    await report.run(`reinforcement learning, ${name}: rewards rise`, async () => {
      const { stood, stepsPerSecond } = await play(place, OBSERVERS, EPISODES, EPISODE_STEPS);
      const { first, last } = ends(stood);
      console.log(
        `        poles stood ${first.toFixed(0)} steps at first, ${last.toFixed(0)} at last; ${stepsPerSecond.toFixed(0)} steps/s`,
      );
      speeds.push(stepsPerSecond);
      assert.ok(last > 2 * first, `${first} steps at first, ${last} at last`);
    });
  const [torch, node] = speeds;
  if (torch === undefined || node === undefined) return;
  report.check(
    `reinforcement learning: ${node.toFixed(0)} steps/s with observers in Node, ${torch.toFixed(0)} with all in torch, goal ≥ ${GOAL_STEPS_PER_SECOND}`,
    node >= GOAL_STEPS_PER_SECOND ? undefined : 'below its goal',
  );
}
