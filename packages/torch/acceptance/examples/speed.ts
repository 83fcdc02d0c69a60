/** @file How fast observers play, beside what torch's own side of it allows: in words. */
import { availableParallelism } from 'node:os';
import type { Played } from './reinforcement.ts';

type Speed = Omit<Played, 'stood'>;

export function speed({ stepsPerSecond }: Speed): string {
  return `${stepsPerSecond.toFixed(0)} steps/s`;
}

/** What was measured. A step is one call of one observer, which waits for its answer. */
export function shown(played: Speed, observers: number): string {
  const { agentCpu, emptyCall } = played;
  const text = `${speed(played)}; the agent's process takes ${agentCpu.toFixed(0)} µs of processor time a step`;
  if (emptyCall === undefined) return text;
  const most = (observers * 1e6) / emptyCall;
  return `${text}; a call that does nothing takes ${emptyCall.toFixed(0)} µs: ${observers} observers with one call a step would make ${most.toFixed(0)} steps/s, were all answered at once`;
}

/** What is wrong where observers here are slower than torch's. */
export function slower(ours: Speed, theirs: Speed): string | undefined {
  const ratio = ours.stepsPerSecond / theirs.stepsPerSecond;
  return ratio >= 1 ? undefined : `${ratio.toFixed(2)} times as fast as all in torch`;
}

/** What is wrong below a goal: beside it, how fast torch alone is and what its agent would need for the goal. */
export function missed(
  ours: Speed,
  goal: number,
  torch: readonly Speed[],
  cores = availableParallelism(),
): string | undefined {
  if (ours.stepsPerSecond >= goal) return undefined;
  const best = Math.max(...torch.map(({ stepsPerSecond }) => stepsPerSecond));
  const beside = best >= goal ? 'all in torch reaches it' : `all in torch misses it, too, with ${best.toFixed(0)}`;
  const needed = (goal * ours.agentCpu) / 1e6;
  return `below its goal; ${beside}; torch's agent alone would take ${needed.toFixed(1)} of ${cores} cores at the goal`;
}
