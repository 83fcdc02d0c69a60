/** @file What an agent is to the program that holds it. */
import type { Named } from '@backwire/tensor';
import type { WorkerInfo } from './worker-info.ts';

/** What `agent.on` can listen to, and what its listeners are given. Nobody waits for a listener. */
export interface AgentEvents {
  /** A worker is silent; it may come back, or be removed. */
  'peer-suspect': WorkerInfo;
  /** A worker was found dead and removed from the group; calls to it fail from now on. */
  'peer-down': WorkerInfo;
  /** A worker has joined. */
  'peer-joined': WorkerInfo;
  /** A worker has left by itself, with `shutdown`. */
  'peer-left': WorkerInfo;
  /** The link to a worker broke and is mended; calls in progress go on. */
  'peer-reconnected': WorkerInfo;
  /** This agent itself is no member any more: the others gave it up. */
  fenced: void;
  /** What went wrong and is nobody's: what a listener threw or rejected with, above all. A warning where nobody listens to it. */
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

/**
 * One worker of a group. Ends by `shutdown`, which in a static group waits for all, or by `await using`, which leaves on its own: it waits
 * for this worker's calls and handlers, five seconds at most, and for nobody else. A worker that others still call ends by `shutdown`.
 */
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
