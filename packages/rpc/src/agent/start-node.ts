/** @file Starts agents in Node. */
import { hostname } from 'node:os';
import type { RpcAgent } from '../base/rpc-agent.ts';
import { becomeDefault } from './default-agent.ts';
import { keepAlive } from '../liveness/thread.ts';
import type { RpcOptions } from './rpc-options.ts';
import { resolveSecurity } from '../security/policy.ts';
import { checkGiven, start, type Surroundings } from './start.ts';
import { openStore } from '../stores/open.ts';
import { isProcessGone, processSpace } from '../base/process-state.ts';
import { knock } from '../transports/knock.ts';
import { createTransports } from '../transports/select.ts';
import { unixTransport } from '../transports/unix.ts';

const NODE: Surroundings = {
  env: process.env,
  host: () => {
    const transport = unixTransport();
    return transport.isViable() ? `${transport.domain}/${processSpace()}` : hostname();
  },
  security: (given, bind) => resolveSecurity(given, { bind }),
  transports: ({ transports, channels }, security, group) => createTransports(transports, security, group, channels),
  store: openStore,
  keepAlive,
  knock,
  isProcessGone,
};

/**
 * Starts an agent and makes it the process's default. Resolves when the group is complete and every member can be called.
 * @param options who this worker is and where its group meets; what is not given is taken from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   and BACKWIRE_SECRET, which `backwire run` sets
 * @throws RpcError 'failed-precondition' ('RPC is already initialized') if there is a default agent, or the name is not unique;
 *   'deadline-exceeded' naming the ranks that are missing; 'invalid-argument'; 'unavailable' when the store is out of reach. TypeError
 *   for options of the wrong type.
 */
export async function initRpc(options: RpcOptions): Promise<RpcAgent> {
  checkGiven(options, 'initRpc');
  return becomeDefault(() => start(options, NODE));
}

/**
 * Starts an agent without touching the default: several in one process.
 * @param options as of `initRpc`
 * @throws RpcError as `initRpc`, but for 'RPC is already initialized'.
 */
export async function createAgent(options: RpcOptions): Promise<RpcAgent> {
  checkGiven(options, 'createAgent');
  return start(options, NODE);
}
