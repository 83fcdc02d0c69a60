/** @file Distributed autograd among workers of torch groups, without torch. */
import { backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { mul, tensor, type Tensor } from '@backwire/tensor';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { idOf } from '../src/autograd/contexts.ts';
import { failed } from '../src/calls/caller.ts';
import { writeCommand } from '../src/messages/codec.ts';
import { group, leave } from './group.ts';

const square = rpcFunction('autograd.square', (x: Tensor) => x.mul(x));
const through = rpcFunction('autograd.through', async (to: string, x: Tensor) =>
  (await rpcSync(to, square, [x])).mul(3),
);
const weight = tensor([2, 5], { requiresGrad: true });
const weigh = rpcFunction('autograd.weigh', (x: Tensor) => x.mul(weight));
const weightRRef = rpcFunction('autograd.weight', () => createRRef(weight));
const gradientOf = rpcFunction('autograd.gradient_of', (id: bigint) => getGradients(id).get(weight)?.toArray() ?? null);
const fails = rpcFunction('autograd.fails', (x: Tensor) => {
  const y = x.mul(2);
  y.registerHook(() => {
    throw new RangeError('in the pass');
  });
  return y;
});

let agents: Agent[];
let me: Agent;
beforeAll(async () => {
  agents = await group(3);
  me = agents[0] as Agent;
}, 60_000);
afterAll(() => leave(agents));
afterEach(() =>
  expect
    .poll(() => agents.map((agent) => agent.autograd.debugInfo()))
    .toEqual(agents.map(() => ({ num_current_backward_passes: 0, num_autograd_contexts: 0 }))),
);

it.each(['n1', 'n0'])('goes through calls to %s, and those that they make', async (to) => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([1, 2, 3], { requiresGrad: true });
      const y = await rpcSync(to, through, ['n2', x]);
      expect(y.toArray()).toEqual([3, 12, 27]);
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([6, 12, 18]);
    }),
  );
});

it('gives owners the gradients of their parameters, and can be run again over a graph that is kept', async () => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([3, 4]);
      const y = (await rpcSync('n1', weigh, [x])).sum();
      await backward(id, [y], { retainGraph: true });
      expect(await rpcSync('n1', gradientOf, [id])).toEqual([3, 4]);
      await backward(id, [y]);
      expect(await rpcSync('n1', gradientOf, [id])).toEqual([6, 8]);
    }),
  );
});

it('goes through operators, and values that are fetched', async () => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([1, 2], { requiresGrad: true });
      const product = await rpcSync('n1', mul, [x, x]);
      const kept: RRef<Tensor> = remote('n1', mul, [x, product]);
      const y = await kept.toHere();
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([3, 12]);
      kept.dispose();
    }),
  );
});

it('ends where a result was ignored', async () => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([1, 2], { requiresGrad: true });
      await rpcSync('n1', weigh, [x]);
      const y = (await rpcSync('n1', weigh, [x])).sum();
      await backward(id, [y], { timeoutMs: 5_000 });
      expect(getGradients(id).get(x)?.toArray()).toEqual([2, 5]);
    }),
  );
});

it('fails with what a function of the graph threw, and adds nothing', async () => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([1], { requiresGrad: true });
      const y = await rpcSync('n1', fails, [x]);
      await expect(backward(id, [y.sum()])).rejects.toThrow(/Error on Node 1: .*in the pass/);
      expect(getGradients(id).size).toBe(0);
    }),
  );
});

it('fails in words where there is nothing to go back through', async () => {
  await me.run(() =>
    context(async (id) => {
      await expect(backward(id, [])).rejects.toThrow(/No tensors provided/);
      await expect(backward(7n, [tensor([1])])).rejects.toMatchObject({ code: 'not-found' });
      const rref = await rpcSync('n1', weightRRef);
      await expect(rref.backward(id)).rejects.toThrow(/scalar/);
      rref.dispose();
    }),
  );
});

it('a pass that begins with gradients for no message ends, and keeps no other from beginning', async () => {
  await me.run(() =>
    context(async (id) => {
      const x = tensor([3, 4], { requiresGrad: true });
      const y = (await rpcSync('n1', weigh, [x])).sum();
      const [to, message] = [me.members.find('n1'), idOf(1, 1_000)];
      const body = writeCommand({
        kind: 'backward-autograd-req',
        gradients: [],
        context: id,
        message,
        retainGraph: false,
      });
      const asked = me.caller.tell(to, body, (response) => {
        throw failed(response, to.worker);
      });
      await expect(asked).rejects.toThrow(/gradients for autograd message 1000 came twice, or for none/);
      expect(agents[1]?.autograd.debugInfo().num_current_backward_passes).toBe(0);
      await backward(id, [y], { timeoutMs: 5_000 });
      expect(getGradients(id).get(x)?.toArray()).toEqual([2, 5]);
    }),
  );
});
