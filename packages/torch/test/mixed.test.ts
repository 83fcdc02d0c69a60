/** @file Groups of stock torch workers and of ours. Skipped without a Python with torch. */
import { RemoteError, allGather, barrier, rpcAsync, rpcFunction, rpcInfo, rpcSync } from '@backwire/rpc';
import { add, matmul, tensor, zeros, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TorchAgent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import { py } from '../src/py.ts';
import { Describer } from './describe.ts';
import { Python, torchVersion, withTorch } from './python.ts';
import { pythonCases } from './written-cases.ts';

rpcFunction('mixed.scale', (x: Tensor, factor: number) => x.mul(factor));
rpcFunction('mixed.same', (value: unknown) => value);
rpcFunction('mixed.describe', (value: unknown) => new Describer().value(value));
rpcFunction('mixed.fails', (text: string): never => {
  throw new RangeError(text);
});
rpcFunction('mixed.doubled_by', async (to: string, x: Tensor) => rpcSync(to, add, [x, x]));
const STUBS = ['scale', 'same', 'describe', 'fails', 'doubled_by', 'not_offered'].map((name) => `mixed.${name}`);
const describeOf = (value: unknown): string => new Describer().value(value);
const SIZE = 3;
const INEXACT: ReadonlySet<string> = new Set([
  'numbers of Python',
  'floats',
  'numpy',
  'lists',
  'the same twice',
  'collections',
]);

describe.skipIf(torchVersion === undefined).each([0, 1, 2])(
  `${withTorch}, node of rank %i in a static group`,
  (rank) => {
    let node: TorchAgent;
    const pythons: Python[] = [];
    const names = [0, 1, 2].map((each) => (each === rank ? 'node' : `py${each}`));
    const others = names.filter((name) => name !== 'node');
    const [first, second] = others as [string, string];
    const python = (name: string): Python => pythons[others.indexOf(name)] as Python;

    beforeAll(async () => {
      const init = `tcp://127.0.0.1:${await freePort()}`;
      const started = others.map((name) =>
        Python.start({ name, rank: names.indexOf(name), size: SIZE, init, stubs: STUBS }),
      );
      pythons.push(...started.map((each) => each.python));
      const joining = createTorchAgent({ name: 'node', rank, worldSize: SIZE, initMethod: init, trustNetwork: true });
      [node] = await Promise.all([joining, ...started.map(({ ready }) => ready)]);
    }, 120_000);

    afterAll(async () => {
      const ends = pythons.map((each) => each.end());
      await node.shutdown({ timeoutMs: 30_000 });
      expect(await Promise.all(ends)).toEqual([0, 0]);
    }, 60_000);

    const call = ((...args: Parameters<typeof rpcSync>) => node.run(() => rpcSync(...args))) as typeof rpcSync;

    describe('node calls python', () => {
      it('functions, with keyword arguments', async () => {
        expect(await call(first, py('model.same'), [41])).toBe(41);
        expect(await call(second, py('model.keywords'), [1, py.kwargs({ c: 5 })])).toEqual([1, 2, 5]);
        expect(await call(first, py('builtins.min'), [[3, 1, 2]])).toBe(1);
      });

      it('operators and TorchScript functions', async () => {
        const x = tensor([
          [1, 2],
          [3, 4],
        ]);
        expect((await call(first, add, [x, x, { alpha: 2 }])).toArray()).toEqual([
          [3, 6],
          [9, 12],
        ]);
        expect((await call(first, add, [x, 1])).toArray()).toEqual([
          [2, 3],
          [4, 5],
        ]);
        expect((await call(first, matmul, [x, x])).toArray()).toEqual([
          [7, 10],
          [15, 22],
        ]);
        const scaled = await call(first, py.script<(a: Tensor, b: number) => Tensor>('model.scripted'), [x, 3]);
        expect(scaled.toArray()).toEqual([
          [3, 6],
          [9, 12],
        ]);
      });

      it('errors with class, message and stack', async () => {
        const error = await call(first, py('model.fails'), ['bad\nvalue']).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(RemoteError);
        expect(error).toMatchObject({ remoteName: 'ValueError', executed: 'yes' });
        expect((error as Error).message).toBe(
          `remote-error: On WorkerInfo(id=${names.indexOf(first)}, name=${first}):\nValueError: bad\nvalue`,
        );
        expect((error as RemoteError).remoteStack).toContain('in fails');
        const odd = await call(first, py('model.fails_strangely'), ['é']).catch((thrown: unknown) => thrown);
        expect(rpcInfo(odd)).toMatchObject({ remoteName: 'CustomError' });
        await expect(call(first, py('model.missing'), [])).rejects.toThrow(/has no attribute 'missing'|missing/);
        await expect(call(first, add, [tensor([1, 2]), tensor([1, 2, 3])])).rejects.toThrow(/size of tensor a/);
      });

      it('and gives up when the time is over, with the worker alive', async () => {
        await expect(call(first, py('model.slow'), [1], { timeoutMs: 50 })).rejects.toMatchObject({
          code: 'deadline-exceeded',
        });
        expect(await call(first, py('model.same'), [1])).toBe(1);
      });

      it('many at once, large ones among them', async () => {
        const large = zeros([1 << 20]).add(1);
        const many = Array.from({ length: 300 }, (_, i) =>
          node.run(() => rpcAsync(i % 2 === 0 ? first : second, py('model.same'), [i])),
        );
        const echo = await call<(x: Tensor) => Tensor>(first, py('model.same'), [large]);
        expect(echo.eq(large).all().item()).toBe(1);
        expect(await Promise.all(many)).toEqual(Array.from({ length: 300 }, (_, i) => i));
      });
    });

    describe('python calls node', () => {
      const plain = pythonCases.filter(
        ([name]) => !['a call', 'a failure', 'references', 'constants', 'objects', 'methods'].includes(name),
      );
      it.each(plain)('with %s, and gets it back', async (name, value, text) => {
        await call(first, py('model.keep'), ['case', value]);
        const echo = await python(first).run(`rpc.rpc_sync('node', mixed.same, (model.kept['case'],))`);
        // Whole floats, and numpy's arrays, come to a handler as numbers and tensors.
        if (!INEXACT.has(name)) expect(echo).toBe(text);
        await call(first, py('model.drop'), ['case']);
      });

      it('functions by name, with and without a stub, by name and by id', async () => {
        const text = describeOf(tensor([2, 4]));
        for (const code of [
          `rpc.rpc_sync('node', mixed.scale, (torch.tensor([1., 2.]), 2))`,
          `rpc.rpc_sync(${rank}, mixed.scale, (torch.tensor([1., 2.]), 2))`,
          `rpc.rpc_sync('node', operator.methodcaller, ('mixed.scale', torch.tensor([1., 2.]), 2))`,
          `rpc.rpc_async('node', mixed.scale, (torch.tensor([1., 2.]), 2)).wait()`,
        ])
          expect(await python(second).run(code)).toBe(text);
      });

      it('operators by schema', async () => {
        const run = (code: string): Promise<string> => python(first).run(code);
        expect(await run(`rpc.rpc_sync('node', torch.add, (torch.ones(2), 2))`)).toBe(describeOf(tensor([3, 3])));
        expect(await run(`rpc.rpc_sync('node', torch.add, (torch.ones(2), torch.ones(2)), {'alpha': 3})`)).toBe(
          describeOf(tensor([4, 4])),
        );
        expect(await run(`rpc.rpc_sync('node', torch.zeros, ([2], ), {'dtype': torch.int64}).tolist()`)).toBe('[0, 0]');
        expect(await run(`rpc.rpc_sync('node', torch.cat, ([torch.ones(1), torch.zeros(1)],))`)).toBe(
          describeOf(tensor([1, 0])),
        );
      });

      it('a function that calls back', async () => {
        const text = await python(first).run(`rpc.rpc_sync('node', mixed.doubled_by, ('${second}', torch.ones(2)))`);
        expect(text).toBe(describeOf(tensor([2, 2])));
      });

      it('and hears errors with their class and text', async () => {
        await expect(python(first).run(`rpc.rpc_sync('node', mixed.fails, ('é 😀 \\\\',))`)).rejects.toMatchObject({
          type: 'ValueError',
          message: expect.stringContaining('RangeError: é 😀 \\'),
        });
        await expect(python(first).run(`rpc.rpc_sync('node', mixed.not_offered)`)).rejects.toMatchObject({
          type: 'RuntimeError',
          message: expect.stringMatching(/Error on Node \d: not-found: 'mixed\.not_offered' is not offered/),
        });
        await expect(python(first).run(`rpc.rpc_sync('node', os.system, ('true',))`)).rejects.toThrow(
          /'posix.system' is not offered/,
        );
        await expect(python(first).run(`rpc.rpc_sync('node', torch.svd, (torch.ones(2, 2),))`)).rejects.toThrow(
          /aten::svd/,
        );
      });
    });

    it('gathers and meets with python', async () => {
      const told = pythons.map((each) =>
        each.run(`dict(sorted(rpc.api._all_gather(rpc.get_worker_info().id).items()))`),
      );
      const gathered = new Map([...(await node.run(() => allGather(rank)))].sort());
      expect(gathered).toEqual(new Map(names.map((name, id) => [name, id] as const).sort()));
      expect(await Promise.all(told)).toEqual(pythons.map(() => describeOf(gathered)));
      const met = pythons.map((each) => each.run(`rpc.api._barrier({'${names.join("','")}'})`));
      await Promise.all([node.run(() => barrier()), ...met]);
    });
  },
);
