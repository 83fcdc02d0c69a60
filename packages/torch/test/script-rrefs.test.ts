/** @file RRefs of what TorchScript functions of stock torch make: torch takes back those of tensors alone, and no refusal keeps a group from its end. */
import { tensor } from '@backwire/tensor';
import { remote, type RRef } from '@backwire/rref';
import { freePort } from '@backwire/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import { py } from '../src/py.ts';
import { Python, torchVersion, withTorch } from './python.ts';

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 60_000 }, () => {
  let node: Agent;
  let python: Python;
  beforeEach(async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const started = Python.start({ name: 'py', rank: 0, size: 2, init, timeout: 10 });
    python = started.python;
    const options = { name: 'node', rank: 1, worldSize: 2, initMethod: init, trustNetwork: true, generation: 0 };
    [node] = await Promise.all([member(options), started.ready]);
  }, 60_000);
  // torch waits at its end until nobody holds its values: a fork that it refused must not be one.
  afterEach(async () => {
    const [code] = await Promise.all([python.end(), node.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })]);
    expect(code).toBe(0);
    expect(node.rrefs.debugInfo()).toMatchObject({ num_pending_children: 0, num_pending_users: 0 });
  }, 60_000);

  interface Counter {
    add(n: number): number;
  }

  it.each([
    ['an object', 'model.scripted_counter', [3]],
    ['a number', 'model.scripted_sum', [3, 4]],
  ])('says of %s what torch cannot take back, and what to do', async (_, name, args) => {
    const made: RRef<Counter> = node.run(() => remote('py', py.script<(...of: number[]) => Counter>(name), args));
    const calls = [() => made.confirmed(), () => made.typeName(), () => made.rpcSync().add(1)];
    for (const call of calls)
      await expect(call()).rejects.toMatchObject({
        code: 'failed-precondition',
        peer: { name: 'py' },
        message: expect.stringMatching(/TorchScript.*only of tensors.*py\(/) as string,
      });
    const failed = made.remote().add(1);
    await expect(failed.toHere()).rejects.toThrow(/TorchScript/);
  });

  it('takes back those of tensors', async () => {
    const made = node.run(() => remote('py', py.script('model.scripted'), [tensor([1, 2]), 3])) as RRef<unknown>;
    await made.confirmed();
    expect(await made.typeName()).toBe('Tensor');
  });
});
