/** @file What an agent is to the program that holds it. */
import type { Named } from '@backwire/tensor';
import type { ShutdownOptions } from './options.ts';
import type { WorkerInfo } from './worker-info.ts';

export interface AgentEvents {
  'peer-suspect': WorkerInfo;
  'peer-down': WorkerInfo;
  'peer-joined': WorkerInfo;
  'peer-left': WorkerInfo;
  'peer-reconnected': WorkerInfo;
  fenced: void;
  error: unknown;
}

/** One worker of a group. Ends by `shutdown`, or `await using`. */
export interface RpcAgent extends AsyncDisposable {
  readonly name: string;
  readonly id: number;
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
  debugInfo(): Record<string, number | string>;
  metrics(): Record<string, unknown>;
  /** Leaves the group. One deadline bounds all of it; who is missing is named. */
  shutdown(options?: ShutdownOptions): Promise<void>;
}
