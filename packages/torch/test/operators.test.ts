/** @file What operators give that others call here by schema: values and types as torch has them, of ints, floats and bools alone, too. */

import { remoteFunction, rpcSync, type AnyFn } from '@backwire/rpc';
import { Tensor, tensor, type DType } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import { py } from '../src/py.ts';
import { callOperator } from '../src/operators/call.ts';
import { PyFloat } from '../src/values/numbers.ts';
import { group, leave } from './group.ts';
import { Python, torchVersion, withTorch } from './python.ts';

const whole = (values: unknown, dtype: DType = 'int64'): Tensor => tensor(values as number[], { dtype });
const shown = (value: unknown): unknown => (value instanceof Tensor ? [value.dtype, value.toArray()] : value);

describe('operators that another worker calls', () => {
  let agents: Agent[];
  beforeAll(async () => {
    agents = await group(2);
  }, 60_000);
  afterAll(() => leave(agents));

  const called = (name: string, ...args: unknown[]): Promise<unknown> =>
    agents[0]!.run(() => rpcSync('n1', remoteFunction<AnyFn>(`aten::${name}`), args as never));

  it.each([
    ['add', [whole([1, 2]), py.float(2)], ['float32', [3, 4]]],
    ['add', [whole([1, 2]), 2], ['int64', [3n, 4n]]],
    ['add', [whole([1, 2]), true], ['int64', [2n, 3n]]],
    ['add', [whole([true, false], 'bool'), true], ['bool', [true, true]]],
    ['mul', [whole([true, false], 'bool'), py.float(2)], ['float32', [2, 0]]],
    ['pow', [whole([2, 3]), py.float(0)], ['float32', [1, 1]]],
    ['clamp', [whole([1, 5]), null, py.float(2)], ['float32', [1, 2]]],
    ['rsub', [whole([1], 'uint8'), tensor([-1]), { alpha: 3 }], ['float32', [-4]]],
    ['ge', [whole([4], 'uint8'), py.float(1e10)], ['bool', [false]]],
    ['full', [[2], py.float(2)], ['float32', [2, 2]]],
    ['full', [[2], 2], ['int64', [2n, 2n]]],
    ['full', [[1], true], ['bool', [true]]],
    ['arange', [py.float(2)], ['float32', [0, 1]]],
    ['sum', [tensor([0.5, 0.5]), { dtype: 'int64' }], ['int64', 0n]],
    ['sum', [whole([3, 4]), { dtype: 'int32' }], ['int32', 7]],
    ['prod', [whole([3, 4]), { dtype: 'int32' }], ['int32', 12]],
    ['cumsum', [tensor([1.5, 1.5]), 0, { dtype: 'int32' }], ['int32', [1, 2]]],
    ['cumprod', [whole([2, 3]), 0, { dtype: 'int32' }], ['int32', [2, 6]]],
  ] as [string, unknown[], unknown][])('%s', async (name, args, expected) => {
    expect(shown(await called(name, ...args))).toEqual(expected);
  });

  it('fail where torch does', async () => {
    await expect(called('size', tensor([1, 2]), 1)).rejects.toThrow(/Dimension out of range .*\[-1, 0\], but got 1/);
    await expect(called('t', tensor([[[1]]]))).rejects.toThrow(/<= 2 dimensions, but self is 3D/);
    await expect(called('one_hot', whole([0, 1]), -2)).rejects.toThrow();
    await expect(called('add_', whole([1]), py.float(1))).rejects.toThrow(/can't be cast to the desired output type/);
  });
});

it('gives numbers that are alone as what they are', () => {
  const run = (name: string, ...args: unknown[]): unknown => callOperator(`aten::${name}() -> Any`, args);
  expect(run('item', tensor([1]))).toEqual(new PyFloat(1));
  expect(run('item', whole([true], 'bool'))).toBe(true);
  expect(run('item', whole([3]))).toBe(3);
  expect(Object.is(run('mul.int', 0, -2), 0)).toBe(true);
  expect(run('add.int', 2n ** 62n, 1)).toBe(2n ** 62n + 1n);
  expect(run('mul.int', 2n ** 62n, 2)).toBe(-(2n ** 63n));
});

it('takes bools and long integers of Python for numbers wherever torch does', () => {
  const run = (name: string, ...args: unknown[]): unknown => (callOperator(name, args) as Tensor).toArray();
  const mask = whole([true, false], 'bool');
  expect(run('aten::masked_fill.Scalar', whole([false, false], 'bool'), mask, true)).toEqual([true, false]);
  expect(run('aten::fill_.Scalar', tensor([2, 3]), true)).toEqual([1, 1]);
  expect(run('aten::add.Tensor', tensor([2, 3]), tensor([1, 1]), true)).toEqual([3, 4]);
  expect(run('aten::leaky_relu', tensor([-2, 3]), false)).toEqual([-0, 3]);
  expect(run('aten::tril', tensor([[1, 2]]), 0n)).toEqual([[1, 0]]);
});

const DRAWN = `
def differing(numbers, kinds):
    found = []
    for name in "add sub rsub mul div floor_divide remainder pow clamp eq lt ge".split():
        for kind in kinds:
            x = torch.tensor([0, 1, 3, 4]).to(getattr(torch, kind))
            for number in numbers:
                operator = getattr(torch, name)
                def ran(run):
                    try:
                        y = run()
                        return str(y.dtype), [str(v) for v in y.to(torch.float64).tolist()]
                    except Exception:
                        return "fails"
                here, there = ran(lambda: operator(x, number)), ran(lambda: rpc.rpc_sync("node", operator, (x, number)))
                if here != there and here != "fails":
                    found.append((name, kind, number, here, there))
    return found
`;

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 120_000 }, () => {
  it('calculates the same with every kind of tensor and of number', async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const { python, ready } = Python.start({ name: 'py', rank: 1, size: 2, init });
    const node = await createTorchAgent({ name: 'node', rank: 0, worldSize: 2, initMethod: init, trustNetwork: true });
    await ready;
    await python.run(DRAWN);
    const numbers = '[2, 2.0, 2.5, -1, -1.0, 0.0, True, False, 1e10]';
    const kinds = '["int64", "int32", "uint8", "bool", "float32", "float64"]';
    expect(await python.run(`differing(${numbers}, ${kinds})`)).toBe('[]');
    const ended = python.end();
    await node.shutdown({ timeoutMs: 30_000 });
    expect(await ended).toBe(0);
  });
});
