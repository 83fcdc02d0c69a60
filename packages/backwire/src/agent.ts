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

/** What is no object goes on as it is: `initRpc` says what it wants. */
function extended(options: rpc.RpcOptions): rpc.RpcOptions {
  const given: unknown = options;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return options;
  const { extensions } = options;
  if (extensions !== undefined && !Array.isArray(extensions)) return options;
  return { ...options, extensions: installed(extensions) };
}

/** As `initRpc` of `@backwire/rpc`, with `rrefs()`, `distAutograd()` and `profiling()` added to `options.extensions`. */
export function initRpc(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.initRpc(extended(options));
}

/** As `createAgent` of `@backwire/rpc`, with the same three extensions added. */
export function createAgent(options: rpc.RpcOptions): Promise<rpc.RpcAgent> {
  return rpc.createAgent(extended(options));
}
