/** @file `initRpc` and `createAgent` with remote references, distributed autograd and profiling installed. */
import { distAutograd } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import * as rpc from '@backwire/rpc';
import { rrefs } from '@backwire/rref';

/** The three extensions, in the order peers agree on, followed by those of `given` that are not among them. */
function installed(given: readonly rpc.Extension[] = []): rpc.Extension[] {
  const standard = [rrefs(), distAutograd(), profiling()].map(
    (extension) => given.find((one) => (one as rpc.Extension | null | undefined)?.name === extension.name) ?? extension,
  );
  return [...standard, ...given.filter((extension) => !standard.includes(extension))];
}

/** What is no object goes on as it is: `initRpc` says what it wants. */
function extended(options: rpc.RpcOptions): rpc.RpcOptions {
  const given: unknown = options;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return options;
  const { extensions } = options;
  if (extensions !== undefined && !Array.isArray(extensions)) return options;
  return { ...options, extensions: installed(extensions) };
}

/**
 * Starts this worker and makes its agent the process's default; resolves when the group is complete and every member can be called. As
 * `initRpc` of `@backwire/rpc`, with `rrefs()`, `distAutograd()` and `profiling()` added to `options.extensions`.
 * @param options who this worker is and where its group meets; what is not given is taken from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   and BACKWIRE_SECRET, which `backwire run` sets
 * @throws RpcError 'failed-precondition' if there is a default agent or the name is not unique; 'deadline-exceeded' naming the ranks that are
 *   missing; 'invalid-argument'; 'unavailable' when the store is out of reach. TypeError for options of the wrong type.
 * @example
 * ```ts
 * // Under `backwire run` a name is enough: await initRpc({ name: `worker${process.env.RANK}` })
 * const agent = await initRpc({ name: 'worker0', rank: 0, worldSize: 1, store: 'memory://example-init' });
 * console.log(agent.name, agent.id); // worker0 0
 * await shutdown();
 * ```
 */
export function initRpc(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.initRpc(extended(options));
}

/**
 * Starts an agent without touching the default: several in one process, as in tests. As `createAgent` of `@backwire/rpc`, with the same
 * three extensions added.
 * @param options as of `initRpc`
 * @throws RpcError as `initRpc`, but never for a second agent.
 * @example
 * ```ts
 * const common = { worldSize: 2, store: 'memory://example-agents' };
 * const [a, b] = await Promise.all([
 *   createAgent({ name: 'a', rank: 0, ...common }),
 *   createAgent({ name: 'b', rank: 1, ...common }),
 * ]);
 * const y = await rpcSync('b', add, [tensor([1]), 1], { agent: a });
 * console.log(y.toArray()); // [ 2 ]
 * await Promise.all([a.shutdown(), b.shutdown()]);
 * ```
 */
export function createAgent(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.createAgent(extended(options));
}
