/** @file torch's examples, split between torch and workers of this kind: the same losses as all of it in Python, and rewards that rise. */
import assert from 'node:assert/strict';
import type { Report } from '../report.ts';
import { TCP } from './group.ts';
import { ALL_TORCH, SPLITS, apart, train } from './parameter-server.ts';
import { ends, play, type Played } from './reinforcement.ts';
import { missed, shown, slower, speed } from './speed.ts';

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

const KINDS = [
  { name: 'all in torch, over shared memory', place: 'torch', links: {} },
  { name: 'all in torch, over TCP', place: 'torch', links: TCP },
  { name: 'observers in Node', place: 'process', links: {} },
  { name: 'observers in Node, torch with TCP alone', place: 'process', links: TCP },
] as const;

async function reinforcement(report: Report): Promise<void> {
  const all: Played[] = [];
  for (const { name, place, links } of KINDS)
    await report.run(`reinforcement learning, ${name}: rewards rise`, async () => {
      const played = await play(place, OBSERVERS, EPISODES, EPISODE_STEPS, links);
      all.push(played);
      const { first, last } = ends(played.stood);
      console.log(`        poles stood ${first.toFixed(0)} steps at first, ${last.toFixed(0)} at last`);
      console.log(`        ${shown(played, OBSERVERS)}`);
      assert.ok(last > 2 * first, `${first} steps at first, ${last} at last`);
    });
  const [memory, tcp, node, nodeTcp] = all;
  if (memory === undefined || tcp === undefined || node === undefined || nodeTcp === undefined) return;
  for (const [name, ours, theirs] of [
    ['torch with all that it has', node, memory],
    ['torch with TCP alone', nodeTcp, tcp],
  ] as const) {
    const speeds = `${speed(ours)} with observers in Node, ${speed(theirs)} with all in torch`;
    report.check(`reinforcement learning, ${name}: ${speeds}, goal: not slower`, slower(ours, theirs));
  }
  const best = node.stepsPerSecond > nodeTcp.stepsPerSecond ? node : nodeTcp;
  report.check(
    `reinforcement learning: ${speed(best)} with observers in Node, goal ≥ ${GOAL_STEPS_PER_SECOND}`,
    missed(best, GOAL_STEPS_PER_SECOND, [memory, tcp]),
  );
}
