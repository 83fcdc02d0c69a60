/** @file Uses that can mean nothing: what is said of them, and that nothing is left. */
import { errorMatching } from '@backwire/testing';
import {
  getWorkerInfo,
  processGroup,
  rpcClass,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcSync,
  type RpcAgent,
} from '@backwire/rpc';
import { add, nn, ones, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { agent, isEmpty, onAll, startGroup, withGroup } from './group.ts';
import { createRRef, remote, rrefs, type RRef } from '../src/index.ts';
import { invokeMethod } from '../src/owner/remote-methods.ts';

const identity = rpcFunction('misuse/identity', (x: number) => x);
const fetch = rpcFunction('misuse/fetch', (rref: RRef<number>) => rref.toHere());
const count = rpcFunction('misuse/count', function* (n: number) {
  for (let i = 0; i < n; i++) yield i;
});
class Counter {
  static readonly [rpcName] = 'misuse/Counter';
  *count(): Generator<number> {
    yield 1;
  }
  ask(): never {
    throw new RpcError('peer-died', "worker 'w9' died", { executed: 'maybe' });
  }
}
rpcClass(Counter, { methods: ['count', 'ask'] });

class Model extends nn.Module {
  readonly linear = new nn.Linear(3, 4);
  forward(x: Tensor): Tensor {
    return this.linear.forward(x);
  }
}

describe('misuse', () => {
  it('what is no list of arguments, no worker, no options or no agent', () =>
    withGroup(2, async (agents) => {
      const loose = remote as unknown as (...given: unknown[]) => unknown;
      expect(() => loose('w1', identity, 5)).toThrow("the arguments of a call are a list, for 'misuse/identity' too");
      expect(() => loose(null, identity, [1])).toThrow('Cannot get WorkerInfo from name null');
      expect(() => loose('w1', identity, [1], 5)).toThrow('the options of remote() are an object, got 5');
      for (const wrong of [{}, 'w1', 7])
        expect(() => loose('w1', identity, [1], { agent: wrong })).toThrow('the agent in the options is no agent');
      expect(agents.every(isEmpty)).toBe(true);
    }));

  it('another agent than the one that made the RRef, which it cannot be used by', () =>
    withGroup(2, async (agents) => {
      const [here, other] = agents as [RpcAgent, RpcAgent];
      for (const owner of ['w0', 'w1']) {
        using rref = remote(owner, identity, [1]);
        for (const use of ['confirmed', 'typeName', 'toHere'] as const)
          await expect(rref[use]({ agent: other })).rejects.toThrow("is used by the agent that made it, 'w0'");
        for (const use of ['rpcSync', 'rpcAsync', 'remote'] as const)
          expect(() => rref[use]({ agent: other })).toThrow("is used by the agent that made it, 'w0'");
        expect(await rref.toHere({ agent: here })).toBe(1);
      }
    }));

  it('a creation that was never sent, of which methods are called at once', () =>
    withGroup(2, async () => {
      for (const owner of ['w0', 'w1']) {
        using never = remote(owner, Counter, [], { signal: AbortSignal.abort() });
        using left = never.remote().ask();
        const cancelled = { code: 'cancelled', executed: 'no' };
        await expect(left.confirmed()).rejects.toMatchObject(cancelled);
        await expect(left.toHere()).rejects.toMatchObject(cancelled);
        await expect(never.toHere()).rejects.toMatchObject(cancelled);
      }
    }));

  it('a generator, which runs only in a stream', () =>
    withGroup(2, async () => {
      for (const owner of ['w0', 'w1']) {
        const made = remote(owner, count as unknown as typeof identity, [3]);
        await expect(made.toHere()).rejects.toThrow('a generator is called with rpcStream()');
        const counter = remote(owner, Counter);
        // @ts-expect-error -- the compiler says so too
        await expect(counter.remote().count().toHere()).rejects.toThrow('a generator is called with rpcStream()');
      }
    }));

  it('local value of a user', () =>
    onAll(4, async (at) => {
      const rref = remote(at('w1'), add, [ones([1]), ones([1])]);
      const n = getWorkerInfo().id;
      const words = `For UserRRef(rref_id=GloballyUniqueId(created_on=${n}, local_id=0), fork_id=GloballyUniqueId(created_on=${n}, local_id=1)), can't call localValue() on user WorkerInfo(id=${n}, name=w${n}). Call it on owner WorkerInfo(id=${(n + 1) % 4}, name=${at('w1')})`;
      await expect(rref.localValue()).rejects.toThrow(
        errorMatching(RpcError, { code: 'failed-precondition', message: words }),
      );
    }));

  it('an RRef without an agent', async () => {
    // Workers reduce together, and none of them is the agent of this code.
    const agents = await startGroup(4);
    try {
      const replicate = async (): Promise<nn.Module> => {
        const replica = new nn.DistributedDataParallel(new Model().train(), { group: processGroup() });
        await replica.synchronize();
        return replica;
      };
      const replicas = await Promise.all(agents.map((each) => each.run(replicate)));
      const code = 'failed-precondition';
      for (const replica of replicas) {
        const values = [1, ...replica.parameters()];
        expect(values).toHaveLength(3);
        const message =
          'Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?';
        for (const value of values) expect(() => createRRef(value)).toThrow(errorMatching(RpcError, { code, message }));
      }
      const message = 'RPC has not been initialized';
      expect(() => remote('w1', identity, [1])).toThrow(errorMatching(RpcError, { code, message }));
    } finally {
      await Promise.all(agents.map((each) => each.shutdown()));
    }
  });

  it('an agent, or a peer, without the extension', () =>
    withGroup(
      3,
      async (agents) => {
        await rpcSync('w2', identity, [1]);
        const missing = errorMatching(RpcError, {
          code: 'failed-precondition',
          message: "worker 'w2' has no extension 'rref'",
        });
        expect(() => remote('w2', identity, [1])).toThrow(missing);
        await expect(rpcSync('w2', fetch, [createRRef(1)])).rejects.toThrow(missing);
        agent(agents, 2).run(() => expect(() => createRRef(1)).toThrow(missing));
      },
      (rank) => (rank === 2 ? { extensions: [] } : { extensions: [rrefs()] }),
    ));

  it('backward without what it needs', () =>
    withGroup(2, async () => {
      const there = remote('w1', identity, [1]) as unknown as RRef<Tensor>;
      await expect(there.backward()).rejects.toThrow("User RRefs require 'dist_autograd_ctx_id' to be specified");
      await there.confirmed();
      await expect(there.backward(1n)).rejects.toThrow("has no extension 'dist-autograd'");
      const here = createRRef(1) as unknown as RRef<Tensor>;
      await expect(here.backward()).rejects.toThrow('RRef should contain a tensor for .backward()');
      const plain = createRRef(ones([2]));
      await expect(plain.backward()).rejects.toThrow(
        'element 0 of tensors does not require grad and does not have a grad_fn',
      );
      await expect(createRRef(ones([1], { requiresGrad: true }).sum()).backward(1n)).rejects.toThrow(
        "worker 'w0' has no extension 'dist-autograd'",
      );
      const leaf = ones([2], { requiresGrad: true });
      await createRRef(leaf.sum()).backward();
      expect(leaf.grad?.toArray()).toEqual([1, 1]);
    }));

  it('an RRef that its owner has let go of, named by a peer', () =>
    withGroup(2, async (agents) => {
      const unknown = rpcSync('w1', invokeMethod, [[0, 1, 12_345], 'add', []]);
      const error: unknown = await unknown.catch((reason: unknown) => reason);
      expect(rpcInfo(error)).toMatchObject({
        message: expect.stringContaining('its last handle was released') as string,
      });
      for (const bad of [[1, 2], ['x', 0, 0], {}, null]) {
        await expect(
          rpcSync('w1', invokeMethod, [bad as unknown as [number, number, number], 'add', []]),
        ).rejects.toThrow('malformed');
      }
      expect(agents).toHaveLength(2);
    }));
});
