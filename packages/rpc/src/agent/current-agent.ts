/** @file Which agent is meant where none is named: the ambient one, else the process's default. */
import { ambient } from '@backwire/tensor/internal';
import type { Agent } from './agent.ts';
import type { RpcAgent } from '../base/rpc-agent.ts';
import type { CallingAgent } from './calling-agent.ts';
import { RpcError } from '../base/errors.ts';
import { defaultAgent, isDefaultStarting } from './default-agent.ts';

/** The agent in the options, else the one whose handler or `run` is running, else the default. @throws RpcError 'failed-precondition' */
export function agentOf(options?: { readonly agent?: RpcAgent | undefined }): CallingAgent {
  const agent = options?.agent ?? (ambient().agent as RpcAgent | undefined) ?? defaultAgent();
  if (agent === undefined) throw notInitialized();
  // A program without types is told what is wrong, not which property of undefined could not be read.
  if (typeof (agent as Partial<CallingAgent>).caller !== 'object')
    throw new TypeError('the agent in the options is no agent');
  return agent as CallingAgent;
}

/** As `agentOf`, for what only this protocol has. @throws RpcError 'failed-precondition' for an agent of another one, naming `what`. */
export function wholeAgentOf(what: string, options?: { readonly agent?: RpcAgent | undefined }): Agent {
  const agent = agentOf(options);
  if ('dispatcher' in agent) return agent as Agent;
  const text = `${what} need a group of Backwire: worker '${agent.name}' is a member of another kind of group`;
  throw new RpcError('failed-precondition', text);
}

function notInitialized(): RpcError {
  const advice = isDefaultStarting() ? ': initRpc() has not ended yet, await it first' : '. Call initRpc() first.';
  return new RpcError('failed-precondition', `RPC has not been initialized${advice}`);
}
