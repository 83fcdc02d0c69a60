/** @file What an agent is to the program that holds it. */
import type { Named } from '@backwire/tensor';
import type { WorkerInfo } from './worker-info.ts';

/**
 * What `agent.on` can listen to, and what its listeners are given. `peer-suspect`: a worker is silent; `peer-down`: it was removed from
 * the group; `peer-left`: it left; `fenced`: this agent itself is no member any more.
 */
export interface AgentEvents {
  'peer-suspect': WorkerInfo;
  'peer-down': WorkerInfo;
  'peer-joined': WorkerInfo;
  'peer-left': WorkerInfo;
  'peer-reconnected': WorkerInfo;
  fenced: void;
  error: unknown;
}

/** How an agent ends. */
export interface ShutdownOptions {
  /** Whether to wait for all workers and for the calls in progress. @default true */
  graceful?: boolean;
  /** One deadline for all of it, in milliseconds; 0 = no limit. @default 0 */
  timeoutMs?: number;
  /** What to do about references that others still hold, graceful or not. @default 'warn' */
  onLeak?: 'warn' | 'throw';
}

/** One worker of a group. Ends by `shutdown`, or `await using`. */
export interface RpcAgent extends AsyncDisposable {
  /** This worker's name, unique in the group. */
  readonly name: string;
  /** Its rank: 0 to 32767. */
  readonly id: number;
  /** The name of the group. */
  readonly group: string;
  /** Runs fn with this agent current and everything else clean: no caller, deadline, autograd context or profiler; grad mode on. */
  run<T>(fn: () => T): T;
  /** Listens until the returned function is called or `signal` aborts. */
  on<E extends keyof AgentEvents>(
    event: E,
    listener: (value: AgentEvents[E]) => void,
    options?: { signal?: AbortSignal },
  ): () => void;
  /** Lets peers call `definition` on this agent; the returned function takes it back. */
  register(definition: Named): () => void;
  /** What the agent has and does, by name: 'agent.client_active_calls', 'num_owner_rrefs' and the like. */
  debugInfo(): Record<string, number | string>;
  /** What it has counted, for `metricsText` and programs of one's own. */
  metrics(): Record<string, unknown>;
  /** Leaves the group. One deadline bounds all of it; who is missing is named. */
  shutdown(options?: ShutdownOptions): Promise<void>;
}
