/** @file Checks of calls, values, tensors and errors, both ways. */
import assert from 'node:assert/strict';
import { RemoteError } from '@backwire/rpc';
import { add, cos, matmul, sparseCooTensor, tensor, zeros, type DType, type Tensor } from '@backwire/tensor';
import { py } from '../../src/index.ts';
import { pythonCases } from '../../test/written-cases.ts';
import { describeOf, type Check, type Mixed } from './check.ts';

const MANY = 300;
/** What is no value of its own: calls and what they make. */
const NO_VALUES: ReadonlySet<string> = new Set([
  'a call',
  'a failure',
  'references',
  'constants',
  'objects',
  'methods',
  'modules',
]);
/** What a handler here gets as numbers and tensors, and gives back as such. */
const INEXACT: ReadonlySet<string> = new Set([
  'numbers of Python',
  'floats',
  'numpy',
  'lists',
  'the same twice',
  'collections',
]);
const DTYPES: readonly DType[] = [
  'float32',
  'float64',
  'float16',
  'bfloat16',
  'int64',
  'int32',
  'int16',
  'int8',
  'uint8',
  'bool',
  'complex64',
];

const same = py<(value: Tensor) => Tensor>('model.same');
const refused = async (group: Mixed, code: string, text: RegExp): Promise<void> =>
  assert.rejects(group.python(group.first, code), text);

export const callChecks: readonly Check[] = [
  {
    name: 'node calls functions of python, by position and by name',
    async run({ call, first, second }) {
      assert.equal(await call(first, py('model.same'), [41]), 41);
      assert.deepEqual(await call(second, py('model.keywords'), [1, py.kwargs({ c: 5 })]), [1, 2, 5]);
      assert.equal(await call(first, py('builtins.min'), [[3, 1, 2]]), 1);
    },
  },
  {
    name: 'node calls operators',
    async run({ call, first }) {
      const x = tensor([
        [1, 2],
        [3, 4],
      ]);
      assert.deepEqual((await call(first, add, [x, x, { alpha: 2 }])).toArray(), [
        [3, 6],
        [9, 12],
      ]);
      assert.deepEqual((await call(first, matmul, [x, x])).toArray(), [
        [7, 10],
        [15, 22],
      ]);
      assert.ok((await call(first, cos, [x])).allClose(cos(x)));
    },
  },
  {
    name: 'node calls a TorchScript function',
    async run({ call, first }) {
      const scripted = py.script<(a: Tensor, b: number) => Tensor>('model.scripted');
      assert.deepEqual((await call(first, scripted, [tensor([1, 2]), 3])).toArray(), [3, 6]);
    },
  },
  {
    name: 'node calls a function that python has decorated as asynchronous',
    async run({ call, first, second }) {
      const later = py.asyncExecution<(to: string, a: Tensor) => Tensor>('model.later');
      assert.deepEqual((await call(first, later, [second, tensor([1, 2])])).toArray(), [2, 4]);
    },
  },
  {
    name: 'node gives a call up when its time is over',
    async run({ call, first }) {
      await assert.rejects(call(first, py('model.slow'), [1], { timeoutMs: 50 }), { code: 'deadline-exceeded' });
      assert.equal(await call(first, py('model.same'), [1]), 1);
    },
  },
  {
    name: 'node has 300 calls under way, and 4 MiB among them',
    async run({ call, later, first, second }) {
      const large = zeros([1 << 20]).add(1);
      const all = Array.from({ length: MANY }, (_, i) => later(i % 2 === 0 ? first : second, py('model.same'), [i]));
      assert.equal((await call(first, same, [large])).eq(large).all().item(), 1);
      assert.deepEqual(
        await Promise.all(all),
        Array.from({ length: MANY }, (_, i) => i),
      );
    },
  },
  {
    name: 'python calls functions of node, by a stub, by methodcaller, by name and by id',
    async run(group) {
      const text = describeOf(tensor([2, 4]));
      const args = `torch.tensor([1., 2.]), 2`;
      for (const code of [
        `rpc.rpc_sync('node', mixed.scale, (${args}))`,
        `rpc.rpc_sync(${group.node.id}, mixed.scale, (${args}))`,
        `rpc.rpc_sync('node', operator.methodcaller, ('mixed.scale', ${args}))`,
        `rpc.rpc_async('node', mixed.scale, (${args})).wait()`,
      ])
        assert.equal(await group.python(group.second, code), text);
    },
  },
  {
    name: 'python calls operators of node by their schema',
    async run(group) {
      const run = (code: string): Promise<string> => group.python(group.first, code);
      assert.equal(await run(`rpc.rpc_sync('node', torch.add, (torch.ones(2), 2))`), describeOf(tensor([3, 3])));
      assert.equal(await run(`rpc.rpc_sync('node', torch.add, (1, 2))`), '3');
      assert.equal(await run(`rpc.rpc_sync('node', torch.zeros, ([2],), {'dtype': torch.int64}).tolist()`), '[0, 0]');
      const joined = await run(`rpc.rpc_sync('node', torch.cat, ([torch.ones(1), torch.zeros(1)],))`);
      assert.equal(joined, describeOf(tensor([1, 0])));
    },
  },
  {
    name: 'python calls a function of node that calls back',
    async run(group) {
      const { first, second } = group;
      const found = await group.python(first, `rpc.rpc_sync('node', mixed.doubled_by, ('${second}', torch.ones(2)))`);
      assert.equal(found, describeOf(tensor([2, 2])));
    },
  },
  {
    name: 'node refuses what it has not offered',
    async run(group) {
      await refused(group, `rpc.rpc_sync('node', mixed.not_offered)`, /'mixed\.not_offered' is not offered/);
      await refused(group, `rpc.rpc_sync('node', os.system, ('true',))`, /'posix.system' is not offered/);
      await refused(group, `rpc.rpc_sync('node', torch.svd, (torch.ones(2, 2),))`, /aten::svd/);
    },
  },
  {
    name: 'values cross both ways, and come back as what they were',
    async run(group) {
      const { call, first } = group;
      for (const [name, value, text] of pythonCases) {
        if (NO_VALUES.has(name)) continue;
        await call(first, py('model.keep'), ['case', value]);
        const echo = await group.python(first, `rpc.rpc_sync('node', mixed.same, (model.kept['case'],))`);
        if (!INEXACT.has(name)) assert.equal(echo, text, name);
        await call(first, py('model.drop'), ['case']);
      }
    },
  },
  {
    name: 'tensors of eleven types cross both ways',
    async run({ call, first }) {
      for (const dtype of DTYPES) {
        const sent = zeros([2, 3]).add(1).to(dtype);
        const back = await call(first, same, [sent]);
        assert.equal(back.dtype, dtype);
        assert.equal(describeOf(back), describeOf(sent));
      }
    },
  },
  {
    name: 'sparse tensors cross both ways, and add up as torch adds them',
    async run(group) {
      const sent = sparseCooTensor(tensor([[0, 1]], { dtype: 'int64' }), tensor([1, 2]), [3]);
      assert.equal(describeOf(await group.call(group.first, same, [sent])), describeOf(sent));
      const made = `torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3, 4, 5], (2, 3))`;
      await group.python(
        group.first,
        `there = rpc.rpc_sync('node', torch.add, (${made}, ${made}))`,
        `own = ${made} + ${made}`,
      );
      const parts = '(t._nnz(), t._indices().tolist(), t._values().tolist())';
      assert.equal(
        await group.python(group.first, `[${parts} for t in (there,)] == [${parts} for t in (own,)]`),
        'True',
      );
    },
  },
  {
    name: 'tensors that share memory share it on the other side, too',
    async run(group) {
      await group.python(group.first, `x = torch.arange(4.)`, `y = rpc.rpc_sync('node', mixed.same, ([x, x[1:]],))`);
      await group.python(group.first, `y[0][1] = 7`);
      assert.equal(await group.python(group.first, `y[1].tolist() == [7., 2., 3.]`), 'True');
    },
  },
  {
    name: 'node hears errors of python with class, message and stack',
    async run({ call, first }) {
      const failing: Promise<unknown> = call(first, py('model.fails'), ['bad\nvalue']);
      const error = await failing.catch((thrown: unknown) => thrown);
      assert.ok(error instanceof RemoteError);
      assert.equal(error.remoteName, 'ValueError');
      assert.match(error.message, /ValueError: bad\nvalue/);
      assert.match(error.remoteStack ?? '', /in fails/);
      await assert.rejects(call(first, py('model.missing'), []), /missing/);
      await assert.rejects(call(first, add, [tensor([1, 2]), tensor([1, 2, 3])]), /size of tensor a/);
    },
  },
  {
    name: 'python hears errors of node with their class and text',
    async run(group) {
      const failing = group.python(group.first, `rpc.rpc_sync('node', mixed.fails, ('é 😀 \\\\',))`);
      await assert.rejects(failing, (error: Error & { type: string }) => {
        assert.equal(error.type, 'ValueError');
        assert.match(error.message, /RangeError: é 😀 \\/);
        return true;
      });
    },
  },
];
