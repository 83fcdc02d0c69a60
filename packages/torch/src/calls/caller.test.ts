/** @file What callers hear when an answer cannot be read. */
import { RpcError, WorkerInfo } from '@backwire/rpc';
import { WireError } from '@backwire/wire/internal';
import { expect, it } from 'vitest';
import type { Reply, TorchPeer } from '../links/peer.ts';
import { Caller, type Wraps } from './caller.ts';
import type { Values } from './values.ts';

it('is told of tensors that have no form here as of any other answer that cannot be read', async () => {
  const peer = {
    worker: new WorkerInfo('py', 0),
    request: (_: unknown, reply: Reply) => {
      queueMicrotask(() => reply.reject(new WireError('decode-error', 'quantised tensors have no form here')));
      return () => undefined;
    },
  } as unknown as TorchPeer;
  const caller = new Caller({} as Values, {} as Wraps, 1_000);
  const error: unknown = await caller
    .tell(peer, { type: 0, body: new Uint8Array(0), tensors: [] }, () => undefined)
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RpcError);
  expect(error).toMatchObject({
    code: 'decode-error',
    executed: 'yes',
    peer: peer.worker,
    message: expect.stringContaining("the answer of worker 'py' cannot be read: ") as string,
  });
});
