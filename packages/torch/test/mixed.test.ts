/** @file Groups of stock torch workers and of ours. Skipped without a Python with torch. */
import { RemoteError, allGather, barrier, rpcAsync, rpcInfo, rpcSync } from '@backwire/rpc';
import { DistributedOptimizer, backward, context as autogradContext, getGradients } from '@backwire/dist-autograd';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, matmul, mul, optim, tensor, zeros, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import { py } from '../src/py.ts';
import { Describer } from './describe.ts';
import { STUBS, type Counter, type Net } from './mixed-functions.ts';
import { Python, torchVersion, withTorch } from './python.ts';
import { pythonCases } from './written-cases.ts';

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
    let node: Agent;
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
      const joining = member({ name: 'node', rank, worldSize: SIZE, initMethod: init, trustNetwork: true });
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
          `On WorkerInfo(id=${names.indexOf(first)}, name=${first}):\nValueError: bad\nvalue [remote-error]`,
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
        ([name]) => !['a call', 'a failure', 'references', 'constants', 'objects', 'methods', 'modules'].includes(name),
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
          message: expect.stringMatching(/Error on Node \d: 'mixed\.not_offered' is not offered/),
        });
        await expect(python(first).run(`rpc.rpc_sync('node', os.system, ('true',))`)).rejects.toThrow(
          /'posix.system' is not offered/,
        );
        await expect(python(first).run(`rpc.rpc_sync('node', torch.svd, (torch.ones(2, 2),))`)).rejects.toThrow(
          /aten::svd/,
        );
      });
    });

    describe('RRefs', () => {
      const remoteTo = ((...args: Parameters<typeof remote>) => node.run(() => remote(...args))) as typeof remote;

      it('node creates in python, fetches, and calls methods', async () => {
        const counter = remoteTo(first, py<Counter>('model.Counter'), [10]);
        expect(await counter.rpcSync().add(5)).toBe(15);
        expect(await counter.rpcAsync().add(py.kwargs({ n: 2 }) as never)).toBe(17);
        expect(await counter.remote().add(1).toHere()).toBe(18);
        expect(await counter.typeName()).toBe('Counter');
        await expect((counter.rpcSync() as never as { missing(): Promise<void> }).missing()).rejects.toThrow(
          /no attribute 'missing'/,
        );
        const x = tensor([1, 2]);
        const sum: RRef<Tensor> = remoteTo(second, add, [x, x]);
        expect((await sum.toHere()).toArray()).toEqual([2, 4]);
        expect(await sum.typeName()).toBe('Tensor');
        const scripted = remoteTo(second, py.script<(a: Tensor, b: number) => Tensor>('model.scripted'), [x, 3]);
        expect((await scripted.toHere()).toArray()).toEqual([3, 6]);
        const failed = remoteTo(first, py('model.fails'), ['no value']);
        await expect(failed.toHere()).rejects.toMatchObject({ remoteName: 'ValueError' });
        for (const rref of [counter, sum, scripted, failed]) rref.dispose();
      });

      it('travel in all four cases', async () => {
        const mine = node.run(() => createRRef(5));
        expect(await call(first, py('model.fetched'), [mine])).toBe(5);
        const theirs = remoteTo(first, py<number>('model.same'), [6]);
        expect(await call(first, py('model.local'), [theirs])).toBe(6);
        expect(await call(second, py('model.fetched'), [theirs])).toBe(6);
        const back = await call(first, py<(rref: RRef<number>) => RRef<number>>('model.same'), [mine]);
        expect(back.isOwner()).toBe(true);
        expect(await back.localValue()).toBe(5);
        const made = await call(first, py<(value: number) => RRef<number>>('model.make'), [8]);
        expect(await made.toHere()).toBe(8);
        for (const rref of [theirs, made]) rref.dispose();
      });

      it('python creates in node, fetches, hands on, and calls methods', async () => {
        const run = (code: string): Promise<string> => python(first).run(code);
        await run(`model.kept['counter'] = rpc.remote('node', mixed.Counter, (10,))`);
        expect(await run(`model.kept['counter'].rpc_sync().add(5)`)).toBe('15');
        expect(await run(`model.kept['counter'].rpc_async().add(1).wait()`)).toBe('16');
        expect(await run(`model.kept['counter'].remote().add(4).to_here()`)).toBe('20');
        expect(await run(`rpc.rpc_sync('${second}', model.called, (model.kept['counter'], 'add', 2))`)).toBe('22');
        expect(await run(`rpc.remote('node', torch.add, (torch.ones(2), 1)).to_here()`)).toBe(
          describeOf(tensor([2, 2])),
        );
        expect(await run(`rpc.rpc_sync('node', mixed.fetch, (rpc.RRef(41),))`)).toBe('41');
        expect(await run(`rpc.rpc_sync('node', mixed.fetch, (rpc.remote('${second}', model.same, (7,)),))`)).toBe('7');
        expect(await run(`rpc.rpc_sync('node', mixed.make, (9,)).to_here()`)).toBe('9');
        await expect(run(`rpc.remote('node', mixed.fails, ('gone',)).to_here()`)).rejects.toMatchObject({
          type: 'ValueError',
        });
        await expect(run(`rpc.remote('node', mixed.not_offered).to_here(timeout=5)`)).rejects.toThrow(/is not offered/);
        await run(`model.kept.clear()`);
      });

      it('leave nothing behind', async () => {
        (globalThis as { gc?: () => void }).gc?.();
        await vi.waitFor(async () => {
          for (const fork of node.rrefs.worker.users.all()) node.rrefs.worker.users.release(fork);
          expect(node.rrefs.debugInfo()).toMatchObject({
            num_owner_rrefs: 0,
            num_forks: 0,
            num_pending_users: 0,
            num_pending_children: 0,
          });
          for (const each of pythons)
            expect(
              await each.run(
                `(__import__('gc').collect(), {k: int(v) for k, v in rpc._rref_context_get_debug_info().items()})[1]`,
              ),
            ).toBe('{"num_pending_users": 0, "num_forks": 0, "num_pending_futures": 0, "num_owner_rrefs": 0}');
        }, 10_000);
      });
    });

    describe('autograd', () => {
      it('from python through node, and back into python', async () => {
        const run = (code: string): Promise<string> => python(first).run(code);
        await run(
          [
            `x = torch.tensor([1., 2., 3.], requires_grad=True)`,
            `with dist_autograd.context() as cid:`,
            `    y = rpc.rpc_sync('node', mixed.through, ('${second}', x))`,
            `    value = y.sum()`,
            `    dist_autograd.backward(cid, [value], retain_graph=True)`,
            `    grads = dist_autograd.get_gradients(cid)[x].clone()`,
            `    dist_autograd.backward(cid, [value])`,
            `    again = dist_autograd.get_gradients(cid)[x].clone()`,
          ].join('\n'),
        );
        expect(await run(`(y.tolist(), grads.tolist(), again.tolist())`)).toBe(
          await run(`([3., 12., 27.], [6., 12., 18.], [12., 24., 36.])`),
        );
      });

      it('from python with the parameter in node', async () => {
        const run = (code: string): Promise<string> => python(second).run(code);
        await run(
          [
            `x = torch.tensor([3., 4.])`,
            `with dist_autograd.context() as cid:`,
            `    ignored = rpc.rpc_sync('node', mixed.weigh, (x,))`,
            `    y = rpc.rpc_sync('node', mixed.weigh, (x,)).sum() + ignored.sum() * 0`,
            `    dist_autograd.backward(cid, [y])`,
            `    got = rpc.rpc_sync('node', mixed.gradient_of, (cid,))`,
          ].join('\n'),
        );
        expect(await run(`got`)).toBe(describeOf(tensor([3, 4])));
      });

      it('from node, through python, with operators, remote values, and results that are ignored', async () => {
        await node.run(() =>
          autogradContext(async (id) => {
            const x = tensor([1, 2, 3], { requiresGrad: true });
            const y = await rpcSync(first, py<(x: Tensor) => Tensor>('model.squared'), [x]);
            await rpcSync(first, py('model.squared'), [x]);
            const product = await rpcSync(second, mul, [y, x]);
            const kept: RRef<Tensor> = remote(second, add, [product, 1]);
            const value = (await kept.toHere()).sum();
            await backward(id, [value], { timeoutMs: 20_000 });
            expect(getGradients(id).get(x)?.toArray()).toEqual([3, 12, 27]);
            kept.dispose();
          }),
        );
      });

      it('steps parameters in node by an optimiser of python', async () => {
        const run = (code: string): Promise<string> => python(first).run(code);
        await run(
          [
            `rref = rpc.remote('node', mixed.parameter)`,
            `p = rref.to_here().detach().clone().requires_grad_()`,
            `reference = optim.SGD([p], lr=0.1, momentum=0.9)`,
            `opt = DistributedOptimizer(optim.SGD, [rref], lr=0.1, momentum=0.9)`,
            `for _ in range(3):`,
            `    with dist_autograd.context() as cid:`,
            `        loss = (rpc.rpc_sync('node', mixed.times_parameter, (torch.tensor([3., 4.]),)) ** 2).sum()`,
            `        dist_autograd.backward(cid, [loss])`,
            `        opt.step(cid)`,
            `    reference.zero_grad()`,
            `    ((p * torch.tensor([3., 4.])) ** 2).sum().backward()`,
            `    reference.step()`,
            `stepped = rref.to_here()`,
            `same = torch.allclose(stepped, p, rtol=1e-5, atol=1e-6)`,
            `del rref, opt`,
          ].join('\n'),
        );
        expect(await run('same')).toBe('True');
      });

      it('steps parameters in python by an optimiser of node', async () => {
        const net = node.run(() => remote(first, py<Net>('model.Net'), [2]));
        const parameters = await net.rpcSync().parameter_rrefs();
        const before = await Promise.all(parameters.map((each) => each.toHere()));
        const optimizer = await node.run(() =>
          DistributedOptimizer.create(optim.SGD, parameters, { lr: 0.5, weightDecay: 0.1 }),
        );
        await node.run(() =>
          autogradContext(async (id) => {
            const loss = (await net.rpcSync().forward(tensor([1, 2]))).sum();
            await backward(id, [loss]);
            await optimizer.step(id);
          }),
        );
        const after = await Promise.all(parameters.map((each) => each.toHere()));
        const expected = await python(first).run(
          [
            `n = model.Net(2)`,
            `o = optim.SGD(n.parameters(), lr=0.5, weight_decay=0.1)`,
            `n(torch.tensor([1., 2.])).sum().backward()`,
            `o.step()`,
          ].join('\n'),
        );
        expect(expected).toBe('None');
        expect(before.map((each, i) => each.allClose(after[i] as Tensor))).toEqual([false, false]);
        expect(await python(first).run(`[p.detach() for p in n.parameters()]`)).toBe(
          describeOf(after.map((each) => each.detach())),
        );
      });

      it('says what failed on the way', async () => {
        await node.run(() =>
          autogradContext(async (id) => {
            const x = tensor([1], { requiresGrad: true });
            const y = await rpcSync(first, py<(x: Tensor) => Tensor>('model.fails_in_backward'), [x]);
            await expect(backward(id, [y.sum()])).rejects.toThrow(/Simulate error on backward pass/);
          }),
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
