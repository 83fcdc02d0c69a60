/** @file A worker of a torch group as tests want it. */
import type { Agent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import type { TorchOptions } from '../src/options.ts';

/** As `createTorchAgent`, with what is inside the worker. */
export function member(options: TorchOptions): Promise<Agent> {
  return createTorchAgent(options) as Promise<Agent>;
}
