/**
 * @file Actors and a learner: observers balance poles and ask one agent what to do; it answers all of them with one forward pass.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/05-rl-actor-learner/main.ts --observers 4
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { remote } from '@backwire/rref';
import { chartSvg } from '../shared/chart.ts';
import { runExample } from '../shared/example.ts';
import { count, type OptionsOf, positive, prepareOutput, text } from '../shared/flags.ts';
import { progress } from '../shared/progress.ts';
import { grouped, textTable, timeText } from '../shared/table.ts';
import { Agent, type Round } from './agent.ts';
import { MAX_STEPS } from './cart-pole.ts';
import { Observer } from './observer.ts';

/** The task counts as solved when the pole stood this long on average over as many episodes (as in OpenAI Gym's CartPole-v0). */
const SOLVED_STEPS = 195;
const SOLVED_EPISODES = 100;

const flags = {
  observers: count('processes that play', 4, { most: 64 }),
  rounds: count('rounds at most; in each, every observer plays one episode', 200, { most: 100_000 }),
  seed: count('of the weights, the games and the actions; the same seed plays the same games', 0, { least: 0 }),
  lr: positive('learning rate', 0.01),
  out: text('DIR', 'where chart and summary go', 'out'),
} as const;
type Options = OptionsOf<typeof flags>;

await runExample({
  program: import.meta.filename,
  name: 'rl-actor-learner',
  about: `
usage: node --import tsx --conditions=@backwire/source apps/examples/src/05-rl-actor-learner/main.ts [flags]

Observers balance a pole on a cart, each in a process of its own. For every step they ask one agent what to do. The agent's handler
waits until all of them have asked, runs its policy once for the whole batch, and answers them all; after a round it learns from what
happened (REINFORCE). Ends when the task is solved: ${SOLVED_STEPS} steps of ${MAX_STEPS} on average over ${SOLVED_EPISODES} episodes.`,
  flags,
  workers: ({ observers }) => ['agent', ...Array.from({ length: observers }, (_, i) => `observer${i}`)],
  check: ({ out }) => prepareOutput(out),
  run,
});

interface Summary {
  readonly solved: boolean;
  readonly episodes: number;
  readonly rounds: number;
  readonly meanStepsLast: number;
  readonly steps: number;
  readonly stepsPerSecond: number;
  readonly meanBatch: number;
  readonly seconds: number;
  /** The length of every episode, round by round. */
  readonly episodeSteps: readonly (readonly number[])[];
}

async function run(options: Options): Promise<void> {
  const { observers, rounds, seed, lr, out } = options;
  const bars = progress(['agent'], process.stdout, { unit: 'rounds', value: 'steps' });
  using agent = remote('agent', Agent, [observers, seed, lr]);
  const players = Array.from({ length: observers }, (_, i) => remote(`observer${i}`, Observer, [i, agent, seed]));
  const played: number[][] = [];
  const learned: Round[] = [];
  const began = performance.now();
  let mean = 0;
  while (played.length < rounds && !(played.flat().length >= SOLVED_EPISODES && mean >= SOLVED_STEPS)) {
    played.push(await Promise.all(players.map((player) => player.rpcAsync({ timeoutMs: 0 }).play())));
    const round = await agent.rpcSync().learn();
    learned.push(round);
    mean = meanOf(played.flat().slice(-SOLVED_EPISODES));
    bars.update('agent', { done: played.length, total: rounds, value: mean });
    if (played.length % 10 === 0) {
      bars.say(
        `round ${played.length}: poles stood ${meanOf(played.slice(-10).flat()).toFixed(1)} steps, ${round.meanBatch.toFixed(2)} states a forward pass`,
      );
    }
  }
  bars.stop();
  const seconds = (performance.now() - began) / 1000;
  const steps = played.flat().reduce((sum, length) => sum + length, 0);
  const summary: Summary = {
    solved: played.flat().length >= SOLVED_EPISODES && mean >= SOLVED_STEPS,
    episodes: played.flat().length,
    rounds: played.length,
    meanStepsLast: mean,
    steps,
    stepsPerSecond: steps / seconds,
    meanBatch: steps / learned.reduce((sum, { batches }) => sum + batches, 0),
    seconds,
    episodeSteps: played,
  };
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, 'reward.svg'), chart(played));
  writeFileSync(join(out, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  console.log(`\n${table(summary)}\n\n${out}/: reward.svg, summary.json`);
  for (const player of players) player.dispose();
}

function table(summary: Summary): string {
  return textTable(
    ['result', 'value'],
    [
      ['solved', summary.solved ? `after ${summary.episodes} episodes` : 'not yet'],
      [`steps, mean of the last ${SOLVED_EPISODES} episodes`, summary.meanStepsLast.toFixed(1)],
      ['episodes', grouped(summary.episodes)],
      ['steps', grouped(summary.steps)],
      ['steps per second', grouped(summary.stepsPerSecond)],
      ['states in a forward pass, mean', summary.meanBatch.toFixed(2)],
      ['time', timeText(summary.seconds * 1000)],
    ],
  );
}

function chart(played: readonly (readonly number[])[]): string {
  const running = played.map((_, i): [number, number] => [
    i + 1,
    meanOf(
      played
        .slice(0, i + 1)
        .flat()
        .slice(-SOLVED_EPISODES),
    ),
  ]);
  return chartSvg([
    {
      title: 'Cart-pole: how long the pole stands',
      xLabel: 'round',
      yLabel: 'steps (reward) of an episode',
      series: [
        { name: 'mean of the round', points: played.map((steps, i) => [i + 1, meanOf(steps)]) },
        { name: `mean of ${SOLVED_EPISODES} episodes`, points: running },
        { name: `solved: ${SOLVED_STEPS}`, points: [[0, SOLVED_STEPS], [played.length, SOLVED_STEPS]] }, // prettier-ignore
      ],
    },
  ]);
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
