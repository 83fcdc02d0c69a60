/** @file reinforcement.py with its agent in torch, and its observers wherever. */
import { Group, type Place } from './group.ts';
import { serveObservers } from './observer.ts';

export interface Played {
  /** How long poles stood on average, episode by episode. */
  readonly stood: readonly number[];
  /** Of all observers together. */
  readonly stepsPerSecond: number;
}

/** Lets observers in such places play, and the agent learn from them. */
export async function play(place: Place, observers: number, episodes: number, steps: number): Promise<Played> {
  const names = Array.from({ length: observers }, (_, i) => `observer${i}`);
  const places: Record<string, Place> = { agent: 'torch' };
  for (const name of names) places[name] = place;
  const group = await Group.start(places, 'reinforcement');
  try {
    if (place === 'here') for (const name of names) serveObservers(group.agent(name));
    const played = `reinforcement.play(${JSON.stringify(names)}, ${episodes}, ${steps})`;
    const [stood, stepsPerSecond] = (await group.value('agent', played)) as [number[], number];
    await group.end();
    return { stood, stepsPerSecond };
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
