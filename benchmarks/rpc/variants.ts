/** @file Calls that use one part more than the plain empty call does: what that part costs is the difference. */
import { channel, type ChannelListener } from 'node:diagnostics_channel';
import { rpcAsync, rpcFunction, waitAll, type RpcAgent } from '@backwire/rpc';
import { echo, nothing } from './served.ts';
import type { Tensor } from '@backwire/tensor';

const later = rpcFunction('bench/later', async () => undefined);
const sum = rpcFunction('bench/sum', (a: number, b: number) => a + b);
const record = rpcFunction('bench/record', (value: { name: string; list: number[] }) => value.list.length);

/** What a block of calls is made with. */
export interface Variant {
  readonly call: () => Promise<unknown>;
  /** Around a block. */
  readonly around?: <T>(block: () => Promise<T>) => Promise<T>;
}

const VALUE = { name: 'something', list: [1, 2, 3] };
const UNLIMITED = { timeoutMs: 0 };
const SHARED = { signal: new AbortController().signal };
const listen: ChannelListener = () => undefined;

/** By what the table calls them. */
export function variantsOf(agent: RpcAgent, small: Tensor): Readonly<Record<string, Variant>> {
  return {
    nothing: { call: () => rpcAsync('w1', nothing) },
    tensor: { call: () => rpcAsync('w1', echo, [small]).then((back) => back.dispose()) },
    'two numbers': { call: () => rpcAsync('w1', sum, [1, 2]) },
    'an object with a list': { call: () => rpcAsync('w1', record, [VALUE]) },
    'no deadline': { call: () => rpcAsync('w1', nothing, [], UNLIMITED) },
    'an async handler': { call: () => rpcAsync('w1', later) },
    'an AbortSignal of its own': { call: () => rpcAsync('w1', nothing, [], { signal: new AbortController().signal }) },
    'an AbortSignal of all': { call: () => rpcAsync('w1', nothing, [], SHARED) },
    'waitAll around': { call: () => rpcAsync('w1', nothing), around: (block) => waitAll(block) },
    'a watched diagnostics channel': {
      call: () => rpcAsync('w1', nothing),
      around: async (block) => {
        const calls = channel('tracing:backwire:rpc.call:start');
        calls.subscribe(listen);
        try {
          return await block();
        } finally {
          calls.unsubscribe(listen);
        }
      },
    },
    'AsyncLocalStorage in the caller': { call: () => rpcAsync('w1', nothing), around: (block) => agent.run(block) },
  };
}
