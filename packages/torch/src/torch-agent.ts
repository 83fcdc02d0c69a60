/** @file What a worker of a torch group is to the program that holds it. */
import type { AnyFn, RpcAgent } from '@backwire/rpc';

/** A worker of a torch group: what any agent is, and what Python's names and torch's dynamic groups need. Made by `joinTorch` or `createTorchAgent`. */
export interface TorchAgent extends RpcAgent {
  /**
   * Lets Python call `body`, a function or a class, by a name that it can import: 'app.scale'. The returned function takes it back.
   * @param methods of a class: those that may be called
   * @throws RpcError 'invalid-argument' for what is no such name or body, 'failed-precondition' when it means something else.
   */
  offer(
    path: string,
    body: AnyFn | (abstract new (...args: never[]) => object),
    methods?: readonly string[],
  ): () => void;
  /**
   * Puts workers that are dead out of a dynamic group, so that others can join and leave again. One that joins after a death dies, too,
   * with the token of the group: name it as well.
   * @throws RpcError 'failed-precondition' in a static group, 'not-found' for one that is no member, 'deadline-exceeded'.
   */
  evict(names: string | readonly string[], options?: { timeoutMs?: number }): Promise<void>;
}
