/** @file `initRpc` and `createAgent` with remote references, distributed autograd and profiling installed. */
import { distAutograd } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import * as rpc from '@backwire/rpc';
import { rrefs } from '@backwire/rref';

/** The three extensions, in the order peers agree on, followed by those of `given` that are not among them. */
function installed(given: readonly rpc.Extension[] = []): rpc.Extension[] {
  const standard = [rrefs(), distAutograd(), profiling()].map(
    (extension) => given.find(({ name }) => name === extension.name) ?? extension,
  );
  return [...standard, ...given.filter((extension) => !standard.includes(extension))];
}

/** As `initRpc` of `@backwire/rpc`, with `rrefs()`, `distAutograd()` and `profiling()` added to `options.extensions`. */
export function initRpc(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.initRpc({ ...options, extensions: installed(options.extensions) });
}

/** As `createAgent` of `@backwire/rpc`, with the same three extensions added. */
export function createAgent(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.createAgent({ ...options, extensions: installed(options.extensions) });
}
