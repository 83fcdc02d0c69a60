/** @file Calls into a torch group by way of a gateway, from any member of the gateway's Backwire group, pages included. */
import { remoteFunction, type AnyFn, type CallOptions, type Rest, type To } from '@backwire/rpc';
import { callLabelled, checkArguments, collectInWaitAll, nameOf } from '@backwire/rpc/internal';
import { remote, type RRef } from '@backwire/rref';
import type { Named } from '@backwire/tensor';
import { CALL, REMOTE, shownName } from './names.ts';
import { registerPythonValues } from './values.ts';

/** A torch group as it is seen through a gateway. */
export interface Gateway {
  /**
   * Calls `fn` on a worker of the torch group and resolves with its result, which the caller owns. Not collected by `waitAll`.
   * @param to the worker's name or id in the torch group
   * @param fn what `py` gives, or another function by its name; the gateway has to serve it
   * @param rest the arguments as a list, then `CallOptions`: time limit and signal hold for the call in the torch group, too
   * @throws RpcError 'permission-denied' for a function or worker that the gateway does not let through, 'not-found' for one that there is
   *   not, 'failed-precondition' where gradients would have to pass; 'deadline-exceeded', 'cancelled', 'unavailable', and 'peer-died' naming
   *   who died, the gateway or the worker.
   * @throws what Python raised, rebuilt where its class is registered here, else as a RemoteError with Python's class, text and stack.
   */
  rpcSync<F extends AnyFn & Named>(
    to: string | number,
    fn: F,
    ...rest: Rest<Parameters<F>>
  ): Promise<Awaited<ReturnType<F>>>;
  /** As `rpcSync`; inside `waitAll` it is also waited for there. */
  rpcAsync<F extends AnyFn & Named>(
    to: string | number,
    fn: F,
    ...rest: Rest<Parameters<F>>
  ): Promise<Awaited<ReturnType<F>>>;
  /**
   * Calls `fn`, a function or a class, on a worker of the torch group, where the result stays, and answers at once with an RRef of it. Its
   * owner is the gateway, which asks the worker for whatever is asked of it: `toHere()`, and the methods that the gateway serves. It
   * may be handed on like any other, and is an argument of further calls through the same gateway. When nobody holds it any more, or
   * whoever does has died, the worker's object goes as well.
   */
  remote<F extends AnyFn & Named>(
    to: string | number,
    fn: F,
    ...rest: Rest<Parameters<F>>
  ): RRef<Awaited<ReturnType<F>>>;
}

const callFunction = remoteFunction(CALL);
const callAndKeep = remoteFunction(REMOTE);

function clientOf(gateway: To): Gateway {
  const call = async (kind: 'sync' | 'async', to: string | number, fn: Named, rest: readonly unknown[]) => {
    const { name, args, options } = given(fn, rest);
    return callLabelled(gateway, callFunction, [to, name, args], options, { kind, name: shownName(name) }) as never;
  };
  return {
    rpcSync: (to, fn, ...rest) => call('sync', to, fn, rest),
    rpcAsync(to, fn, ...rest) {
      const promise = call('async', to, fn, rest);
      collectInWaitAll(promise);
      return promise;
    },
    remote(to, fn, ...rest) {
      const { name, args, options } = given(fn, rest);
      return remote(gateway, callAndKeep, [to, name, args], options) as never;
    },
  };
}

/** @throws RpcError 'invalid-argument' for what has no name; TypeError for arguments that are no list. */
function given(
  fn: Named,
  rest: readonly unknown[],
): { readonly name: string; readonly args: readonly unknown[]; readonly options: CallOptions | undefined } {
  const name = nameOf(fn);
  const [args, options] = rest as readonly [args?: readonly unknown[], options?: CallOptions];
  checkArguments(args, shownName(name));
  return { name, args: args ?? [], options };
}

/**
 * The torch group behind a gateway: a member of this worker's Backwire group on which `serveGateway` was called. Nothing is asked before
 * the first call. In pages, where nothing follows a program across `await`, the agent is given in the options of calls.
 * @param gateway its name, its rank, or a `WorkerInfo`
 * @example
 * ```ts compile
 * import { tensor, type Tensor } from 'backwire';
 * import { py, throughGateway } from '@backwire/torch/gateway';
 *
 * interface Net {
 *   forward(x: Tensor): Tensor;
 * }
 * const x = tensor([1, 2]);
 * const python = throughGateway('gateway');
 * const chances = await python.rpcSync('trainer', py<(x: Tensor) => Tensor>('model.predict'), [x], { timeoutMs: 5_000 });
 * const net = python.remote('trainer', py<Net>('model.Net'), [64]);
 * const y = await net.rpcSync().forward(x);
 * net.dispose();
 * ```
 */
export function throughGateway(gateway: To): Gateway {
  registerPythonValues();
  return clientOf(gateway);
}
