/** @file Checks of RRefs, distributed autograd, optimisers, profiles and modules. */
import assert from 'node:assert/strict';
import { DistributedOptimizer, RemoteModule, backward, context, getGradients } from '@backwire/dist-autograd';
import { allGather, barrier, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, mul, nn, optim, tensor, type Tensor } from '@backwire/tensor';
import { py } from '../../src/index.ts';
import type { Counter, Net } from '../../test/mixed-functions.ts';
import { describeOf, type Check } from './check.ts';

const squared = py<(x: Tensor) => Tensor>('model.squared');

/** Optimisers of torch with options that both sides have. */
const OPTIMISERS = [
  `optim.SGD, dict(lr=0.1, momentum=0.9)`,
  `optim.Adam, dict(lr=0.05)`,
  `optim.AdamW, dict(lr=0.05)`,
  `optim.Adagrad, dict(lr=0.1)`,
  `optim.Adadelta, dict(rho=0.9)`,
  `optim.RMSprop, dict(lr=0.05)`,
  `optim.Adamax, dict(lr=0.05)`,
  `optim.RAdam, dict(lr=0.05)`,
  `optim.Rprop, dict(lr=0.05)`,
];

export const referenceChecks: readonly Check[] = [
  {
    name: 'node makes values in python, by functions, operators and scripts, and fetches them',
    async run(group) {
      const x = tensor([1, 2]);
      const made: RRef<unknown>[] = [
        group.remote(group.first, py('model.same'), [5]),
        group.remote(group.second, add, [x, x]),
        group.remote(group.second, py.script('model.scripted'), [x, 3]),
      ];
      assert.equal(await made[0]?.toHere(), 5);
      assert.deepEqual(((await made[1]?.toHere()) as Tensor).toArray(), [2, 4]);
      assert.deepEqual(((await made[2]?.toHere()) as Tensor).toArray(), [3, 6]);
      assert.equal(await made[1]?.typeName(), 'Tensor');
      for (const rref of made) rref.dispose();
    },
  },
  {
    name: 'node calls methods of an object in python',
    async run(group) {
      const counter = group.remote(group.first, py<Counter>('model.Counter'), [10]);
      assert.equal(await counter.rpcSync().add(5), 15);
      assert.equal(await counter.rpcAsync().add(py.kwargs({ n: 2 }) as never), 17);
      assert.equal(await counter.remote().add(1).toHere(), 18);
      assert.equal(await counter.typeName(), 'Counter');
      counter.dispose();
    },
  },
  {
    name: 'python makes values in node, and fetches them',
    async run(group) {
      const run = (code: string): Promise<string> => group.python(group.first, code);
      assert.equal(
        await run(`rpc.remote('node', torch.add, (torch.ones(2), 1)).to_here()`),
        describeOf(tensor([2, 2])),
      );
      assert.equal(await run(`rpc.remote('node', mixed.same, (7,)).to_here()`), '7');
      assert.equal(await run(`rpc.rpc_sync('node', mixed.make, (9,)).to_here()`), '9');
    },
  },
  {
    name: 'python calls methods of an object and of a tensor in node, also from a third worker',
    async run(group) {
      const run = (code: string): Promise<string> => group.python(group.first, code);
      await run(`model.kept['counter'] = rpc.remote('node', mixed.Counter, (10,))`);
      assert.equal(await run(`model.kept['counter'].rpc_sync().add(5)`), '15');
      assert.equal(await run(`model.kept['counter'].rpc_async().add(1).wait()`), '16');
      assert.equal(await run(`model.kept['counter'].remote().add(4).to_here()`), '20');
      assert.equal(await run(`rpc.rpc_sync('${group.second}', model.called, (model.kept['counter'], 'add', 2))`), '22');
      await run(`model.kept['x'] = rpc.remote('node', torch.add, (torch.ones(2, 2), 1))`);
      assert.equal(await run(`tuple(model.kept['x'].rpc_sync().size())`), '(2, 2)');
      assert.equal(await run(`model.kept['x'].rpc_sync().view(4).tolist() == [2.] * 4`), 'True');
      await run(`model.kept.clear()`);
    },
  },
  {
    name: 'RRefs travel in all four cases of owner, caller and callee',
    async run(group) {
      const { first, second } = group;
      const mine = group.node.run(() => createRRef(5));
      assert.equal(await group.call(first, py('model.fetched'), [mine]), 5);
      const theirs = group.remote(first, py('model.same'), [6]);
      assert.equal(await group.call(first, py('model.local'), [theirs]), 6);
      assert.equal(await group.call(second, py('model.fetched'), [theirs]), 6);
      const back = await group.call(first, py<(rref: RRef<number>) => RRef<number>>('model.same'), [mine]);
      assert.equal(back.isOwner(), true);
      const made = await group.call(first, py<(value: number) => RRef<number>>('model.make'), [8]);
      assert.equal(await made.toHere(), 8);
      for (const rref of [theirs, made]) rref.dispose();
    },
  },
  {
    name: 'a value that could not be made says why, on both sides',
    async run(group) {
      const run = (code: string): Promise<string> => group.python(group.first, code);
      const failed = group.remote(group.first, py('model.fails'), ['no value']);
      await assert.rejects(failed.toHere(), { remoteName: 'ValueError' });
      failed.dispose();
      await assert.rejects(run(`rpc.remote('node', mixed.fails, ('gone',)).to_here()`), /gone/);
      await assert.rejects(run(`rpc.remote('node', mixed.not_offered).to_here(timeout=5)`), /is not offered/);
    },
  },
  {
    name: 'gradients go from python through node into python and back, twice over one graph',
    async run(group) {
      await group.python(
        group.first,
        `x = torch.tensor([1., 2., 3.], requires_grad=True)`,
        `with dist_autograd.context() as cid:`,
        `    y = rpc.rpc_sync('node', mixed.through, ('${group.second}', x))`,
        `    value = y.sum()`,
        `    dist_autograd.backward(cid, [value], retain_graph=True)`,
        `    grads = dist_autograd.get_gradients(cid)[x].clone()`,
        `    dist_autograd.backward(cid, [value])`,
        `    again = dist_autograd.get_gradients(cid)[x].clone()`,
      );
      assert.equal(
        await group.python(group.first, `(grads.tolist(), again.tolist()) == ([6., 12., 18.], [12., 24., 36.])`),
        'True',
      );
    },
  },
  {
    name: 'gradients of python end in a parameter of node',
    async run(group) {
      await group.python(
        group.second,
        `with dist_autograd.context() as cid:`,
        `    ignored = rpc.rpc_sync('node', mixed.weigh, (torch.tensor([3., 4.]),))`,
        `    y = rpc.rpc_sync('node', mixed.weigh, (torch.tensor([3., 4.]),)).sum() + ignored.sum() * 0`,
        `    dist_autograd.backward(cid, [y])`,
        `    got = rpc.rpc_sync('node', mixed.gradient_of, (cid,))`,
      );
      assert.equal(await group.python(group.second, `got.tolist() == [3., 4.]`), 'True');
    },
  },
  {
    name: 'gradients go from node through python, operators, values that are fetched, and results that are ignored',
    async run(group) {
      await group.node.run(() =>
        context(async (id) => {
          const x = tensor([1, 2, 3], { requiresGrad: true });
          const y = await rpcSync(group.first, squared, [x]);
          await rpcSync(group.first, squared, [x]);
          const kept: RRef<Tensor> = remote(group.second, add, [await rpcSync(group.second, mul, [y, x]), 1]);
          await backward(id, [(await kept.toHere()).sum()], { timeoutMs: 20_000 });
          assert.deepEqual(getGradients(id).get(x)?.toArray(), [3, 12, 27]);
          kept.dispose();
        }),
      );
    },
  },
  {
    name: 'a pass that fails in python says so in node',
    async run(group) {
      await group.node.run(() =>
        context(async (id) => {
          const x = tensor([1], { requiresGrad: true });
          const y = await rpcSync(group.first, py<(x: Tensor) => Tensor>('model.fails_in_backward'), [x]);
          await assert.rejects(backward(id, [y.sum()]), /Simulate error on backward pass/);
        }),
      );
    },
  },
  {
    name: 'optimisers of python step a parameter of node: eight of them, as torch steps its own',
    async run(group) {
      for (const optimiser of OPTIMISERS) {
        await group.python(
          group.first,
          `cls, options = ${optimiser}`,
          `rref = rpc.remote('node', mixed.parameter)`,
          `p = rref.to_here().detach().clone().requires_grad_()`,
          `reference = cls([p], **options)`,
          `opt = DistributedOptimizer(cls, [rref], **options)`,
          `for _ in range(3):`,
          `    with dist_autograd.context() as cid:`,
          `        loss = (rpc.rpc_sync('node', mixed.times_parameter, (torch.tensor([3., 4.]),)) ** 2).sum()`,
          `        dist_autograd.backward(cid, [loss])`,
          `        opt.step(cid)`,
          `    reference.zero_grad()`,
          `    ((p * torch.tensor([3., 4.])) ** 2).sum().backward()`,
          `    reference.step()`,
          `same = torch.allclose(rref.to_here(), p, rtol=1e-4, atol=1e-5)`,
          `del rref, opt`,
        );
        assert.equal(await group.python(group.first, 'same'), 'True', optimiser);
      }
    },
  },
  {
    name: 'an optimiser of node steps the parameters of a module of python',
    async run(group) {
      const net = group.remote(group.first, py<Net>('model.Net'), [2]);
      const parameters = await net.rpcSync().parameter_rrefs();
      await group.node.run(async () => {
        const optimizer = await DistributedOptimizer.create(optim.SGD, parameters, { lr: 0.5, weightDecay: 0.1 });
        await context(async (id) => {
          await backward(id, [(await net.rpcSync().forward(tensor([1, 2]))).sum()]);
          await optimizer.step(id);
        });
      });
      const after = await Promise.all(parameters.map((each) => each.toHere()));
      await group.python(
        group.first,
        `n = model.Net(2)`,
        `o = optim.SGD(n.parameters(), lr=0.5, weight_decay=0.1)`,
        `n(torch.tensor([1., 2.])).sum().backward()`,
        `o.step()`,
      );
      assert.equal(
        await group.python(group.first, `[p.detach() for p in n.parameters()]`),
        describeOf(after.map((each) => each.detach())),
      );
      for (const rref of [net, ...parameters]) rref.dispose();
    },
  },
  {
    name: 'a profile of python shows what node did',
    async run(group) {
      await group.python(
        group.first,
        `from torch.autograd.profiler_legacy import profile`,
        `with profile() as p:`,
        `    rpc.rpc_sync('node', torch.mul, (torch.ones(2), 2))`,
        `    rpc.rpc_sync('node', mixed.doubled_by, ('${group.second}', torch.ones(2)))`,
        `names = [e.name for e in p.function_events if e.is_remote]`,
      );
      const found = await group.python(group.first, `'|'.join(names)`);
      assert.match(found, /rpc_sync#aten::mul\(\w+ -> node\)#remote_op: aten::mul/);
      assert.match(found, /#remote_op: rpc_sync#aten::add\(node -> \w+\)/);
    },
  },
  {
    name: 'RemoteModule of python makes a module in node, runs it, trains it, and has its parameters',
    async run(group) {
      await group.python(
        group.first,
        `from torch.distributed.nn import RemoteModule`,
        `net = RemoteModule('node/cpu', nn.Linear, (3, 2), dict(bias=False))`,
        `x = torch.tensor([[1., 2., 3.]], requires_grad=True)`,
        `with dist_autograd.context() as cid:`,
        `    y = net.forward(x)`,
        `    dist_autograd.backward(cid, [y.sum()])`,
        `    grad = dist_autograd.get_gradients(cid)[x].clone()`,
        `weights = [p.to_here() for p in net.remote_parameters()]`,
        `net.train(); net.eval()`,
        `right = torch.allclose(y, x @ weights[0].t()) and torch.allclose(grad[0], weights[0].sum(0)) and len(weights) == 1`,
        `same = torch.equal(net.forward_async(x).wait(), y)`,
        `del net`,
      );
      assert.equal(await group.python(group.first, `(right, same)`), '(True, True)');
    },
  },
  {
    name: 'RemoteModule of node makes modules in python, runs them, and has their parameters',
    async run(group) {
      await group.node.run(async () => {
        const linear = await RemoteModule.create(`${group.first}/cpu`, nn.Linear, [3, 2, { bias: false }]);
        const x = tensor([[1, 2, 3]], { requiresGrad: true });
        const [weight] = await linear.remoteParameters();
        const w = (await weight?.toHere()) as Tensor;
        await context(async (id) => {
          const y = await linear.forward(x);
          assert.ok(y.allClose(x.matmul(w.transpose(0, 1))));
          await backward(id, [y.sum()]);
          assert.ok(getGradients(id).get(x)?.allClose(w.sum(0).unsqueeze(0)));
        });
        const net = await RemoteModule.create(`${group.second}/cpu`, py<never>('model.Net'), [3] as never);
        assert.deepEqual([...((await net.forward(...([tensor([1, 2, 3])] as never))) as unknown as Tensor).shape], [2]);
        weight?.dispose();
        linear.getModuleRRef().dispose();
        net.getModuleRRef().dispose();
      });
    },
  },
  {
    name: 'all gather, and meet at a barrier',
    async run(group) {
      const both = [group.first, group.second];
      // A worker of torch in a dynamic group takes those to be all who were there when it joined.
      const all = `{'${group.names.join("','")}'}`;
      const told = both.map((name) =>
        group.python(name, `dict(sorted(rpc.api._all_gather(rpc.get_worker_info().id, ${all}, 20).items()))`),
      );
      const values = await group.node.run(() => allGather(group.node.id, { timeoutMs: 20_000 }));
      const gathered = new Map([...values].sort());
      assert.deepEqual([...gathered.keys()], [...group.names].sort());
      assert.deepEqual(
        await Promise.all(told),
        both.map(() => describeOf(gathered)),
      );
      const met = both.map((name) => group.python(name, `rpc.api._barrier(${all})`));
      await Promise.all([group.node.run(() => barrier()), ...met]);
    },
  },
];
