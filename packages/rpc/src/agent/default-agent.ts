/** @file The process's default agent. */
import { RpcError } from '../base/errors.ts';
import type { RpcAgent } from '../base/rpc-agent.ts';

// On a well-known global symbol, so that two installed copies of this package agree.
const KEY = Symbol.for('backwire.rpc.default');
const holder = globalThis as { [KEY]?: { agent: RpcAgent | undefined; starting: boolean } };
const slot = (holder[KEY] ??= { agent: undefined, starting: false });

export function defaultAgent(): RpcAgent | undefined {
  return slot.agent;
}

/** Whether it is being made: somebody has called `initRpc` and not awaited it, or not yet. */
export function isDefaultStarting(): boolean {
  return slot.starting;
}

/** Takes the place of the default agent while it starts. @throws RpcError 'failed-precondition' when it is taken. */
export async function becomeDefault<T extends RpcAgent>(start: () => Promise<T>): Promise<T> {
  if (slot.agent !== undefined || slot.starting)
    throw new RpcError(
      'failed-precondition',
      'RPC is already initialized: initRpc() has been called; createAgent() makes further agents, and after `await shutdown()` there may be another default',
    );
  slot.starting = true;
  try {
    const agent = await start();
    slot.agent = agent;
    return agent;
  } finally {
    slot.starting = false;
  }
}

/** The agent is closed: it is not the default any more. */
export function forgetDefault(agent: object): void {
  if (slot.agent === agent) slot.agent = undefined;
}
