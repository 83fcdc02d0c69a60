/** @file reinforcement.py with its agent in torch, and its observers wherever. */
import { Group, type Links, type Place } from './group.ts';
import { serveObservers } from './observer.ts';

export interface Played {
  /** How long poles stood on average, episode by episode. */
  readonly stood: readonly number[];
  /** Of all observers together. */
  readonly stepsPerSecond: number;
  /** Processor time of the agent's process, all of its threads, in microseconds a step. */
  readonly agentCpu: number;
  /** Microseconds of a call from an observer to the agent that does nothing: where both are torch's. */
  readonly emptyCall: number | undefined;
}

/** Calls that `emptyCall` is the median of. */
const EMPTY_CALLS = 1_000;

/** Lets observers in such places play, and the agent learn from them. */
export async function play(
  place: Place,
  observers: number,
  episodes: number,
  steps: number,
  links: Links = {},
): Promise<Played> {
  const names = Array.from({ length: observers }, (_, i) => `observer${i}`);
  const places: Record<string, Place> = { agent: 'torch' };
  for (const name of names) places[name] = place;
  const group = await Group.start(places, 'reinforcement', links);
  try {
    if (place === 'here') for (const name of names) serveObservers(group.agent(name));
    const played = `reinforcement.play(${JSON.stringify(names)}, ${episodes}, ${steps})`;
    const [stood, stepsPerSecond, agentCpu] = (await group.value('agent', played)) as [number[], number, number];
    const empty = `reinforcement.call_time('agent', ${EMPTY_CALLS})`;
    const emptyCall = place === 'torch' ? Number(await group.value('observer0', empty)) : undefined;
    await group.end();
    return { stood, stepsPerSecond, agentCpu, emptyCall };
  } finally {
    await group.kill();
  }
}

/** Means of the first and of the last fifth. */
export function ends(values: readonly number[]): { readonly first: number; readonly last: number } {
  const some = Math.max(1, Math.floor(values.length / 5));
  return { first: mean(values.slice(0, some)), last: mean(values.slice(-some)) };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
