/** @file Devices: what tensors say of where they are, what operations make of it, and memory of its own. */
import { afterAll, describe, expect, it } from 'vitest';
import {
  concat,
  deviceMemory,
  devices,
  grad,
  mseLoss,
  nn,
  ones,
  openHostDevice,
  optim,
  Parameter,
  randn,
  setBackend,
  sparseCooTensor,
  tensor,
  zeros,
  type Device,
  type DType,
  type Tensor,
} from './index.ts';

openHostDevice('host:0');
openHostDevice('host:1');
openHostDevice('host:1');
afterAll(() => setBackend('auto'));

describe('a device in host memory', () => {
  it('is one of several, each with a name', () => {
    expect(devices()).toEqual(expect.arrayContaining(['cpu', 'host:0', 'host:1']));
    for (const name of ['cpu', 'host', 'host:', 'host:01', 'Host:0', 'host:10000', '', 'host:-1', '__proto__:0'])
      expect(() => openHostDevice(name)).toThrow('is no name for a device');
    expect(() => tensor([1]).to('host:7')).toThrow(/^(?:.*: )?no device 'host:7' here; there are cpu/);
  });

  it('takes tensors by to(), into memory of its own, and gives them back', () => {
    const before = deviceMemory('host:0');
    const bytes = new Float32Array([1, 2, 3, 4]);
    const here = tensor(bytes, { shape: [2, 2] });
    const there = here.to('host:0');
    expect([here.device, there.device, there.dtype, there.shape]).toEqual(['cpu', 'host:0', 'float32', [2, 2]]);
    expect(deviceMemory('host:0') - before).toBe(16);
    here.add_(10);
    expect(there.toArray()).toEqual([[1, 2], [3, 4]]); // prettier-ignore
    there.zero_();
    expect([there.device, there.sum().item(), here.toArray()]).toEqual(['host:0', 0, [[11, 12], [13, 14]]]); // prettier-ignore
    expect(there.to('host:0').storage).toBe(there.storage);
    expect(there.to('cpu').device).toBe('cpu');
    expect(there.to('host:1').device).toBe('host:1');
    there.dispose();
  });

  it('takes whole modules, with integer buffers and gradients, which train there as here', () => {
    const make = () => new nn.Sequential(new nn.Linear(3, 2), new nn.BatchNorm1d(2));
    const [here, there] = [make(), make()];
    there.loadStateDict(here.stateDict());
    const all = (): Tensor[] => [...there.parameters(), ...there.buffers()];
    const held = all();
    const [x, y] = [randn([4, 3]), randn([4, 2])];
    const lossOf = (module: typeof here, device: Device): Tensor => mseLoss(module.forward(x.to(device)), y.to(device));
    for (const [module, device] of [[here, 'cpu'], [there, 'cpu']] as const) lossOf(module, device).backward(); // prettier-ignore
    expect(there.to('host:0')).toBe(there);
    expect(all().map(({ device }) => device)).toEqual(held.map(() => 'host:0'));
    expect(all().every((t, i) => t === held[i])).toBe(true);
    expect(there.parameters().map(({ grad: g, isLeaf, requiresGrad }) => [g?.device, isLeaf, requiresGrad])).toEqual(
      there.parameters().map(() => ['host:0', true, true]),
    );
    for (const [module, device] of [
      [here, 'cpu'],
      [there, 'host:0'],
    ] as const) {
      const steps = new optim.Adam(module.parameters(), { lr: 0.1 });
      for (let i = 0; i < 3; i++) {
        steps.step();
        steps.zeroGrad();
        lossOf(module, device).backward();
      }
    }
    expect(() => there.to('host:7')).toThrow("no device 'host:7' here");
    there.to('cpu');
    expect(all().map((t) => [t.device, t.toArray()])).toEqual(
      [...here.parameters(), ...here.buffers()].map((t) => ['cpu', t.toArray()]),
    );
    expect(all().some(({ dtype }) => dtype === 'int64')).toBe(true);
  });

  it('gives back the memory of a module that left', () => {
    const module = new nn.Linear(8, 4);
    const before = deviceMemory('host:1');
    module.to('host:1');
    expect(deviceMemory('host:1') - before).toBe(4 * (8 * 4 + 4));
    module.to('cpu');
    expect(deviceMemory('host:1')).toBe(before);
  });

  it.each<DType>(['float32', 'float64', 'int64', 'int8', 'bool', 'bfloat16', 'complex64'])(
    'keeps every bit of %s',
    (dtype) => {
      const here = dtype === 'bool' ? tensor([true, false], { dtype }) : tensor([1, -2, 3].map(Number), { dtype });
      const there = here.to('host:0');
      expect([there.device, there.dtype]).toEqual(['host:0', dtype]);
      expect(there.to('cpu').equal(here)).toBe(true);
      expect(there.transpose(0, 0).device).toBe('host:0');
    },
  );

  it('gives back what is disposed', () => {
    const before = deviceMemory('host:1');
    const there = zeros([100]).to('host:1');
    const view = there.narrow(0, 0, 10);
    there.dispose();
    expect(deviceMemory('host:1') - before).toBe(400);
    view.dispose();
    expect(deviceMemory('host:1')).toBe(before);
  });

  it('has the results of operations on what lies there, views and sparse ones too', () => {
    const a = ones([2, 3]).to('host:0');
    const results: Tensor[] = [
      a.add(a),
      a.add(2),
      a.mul(tensor(3)), // a number of the cpu
      a.matmul(a.transpose(0, 1)),
      a.select(0, 1),
      a.sum(),
      a.reshape([6]).narrow(0, 1, 2),
      concat([a, a]),
      a.clone(),
      a.to('float64'),
      a.argMax(),
      a.detach(),
      a.expand([2, 2, 3]),
    ];
    expect(results.map(({ device }) => device)).toEqual(results.map(() => 'host:0'));
    expect(results[3]?.toArray()).toEqual([[3, 3], [3, 3]]); // prettier-ignore
    const s = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]).to('host:0');
    expect([s.device, s.layout, s.coalesce().device, s.add(s).device, s.toDense().device]).toEqual(
      ['host:0', 'sparse_coo', 'host:0', 'host:0', 'host:0'], // prettier-ignore
    );
    expect(s.coalesce().values().device).toBe('host:0');
    expect(s.toDense().toArray()).toEqual([1, 0, 2, 0]);
  });

  it('computes by kernels as well, and the memory stays its own', async () => {
    await setBackend('wasm');
    const [a, b] = [randn([96, 96]), randn([96, 96])];
    const before = deviceMemory('host:0');
    const there = a.to('host:0').matmul(b.to('host:0'));
    expect(there.device).toBe('host:0');
    expect(deviceMemory('host:0') - before).toBeGreaterThanOrEqual(96 * 96 * 4);
    expect(there.to('cpu').allClose(a.matmul(b))).toBe(true);
  });

  it.each<[string, (here: Tensor, there: Tensor, other: Tensor) => unknown]>([
    ['add', (here, there) => here.add(there)],
    ['matmul', (here, there) => there.matmul(here)],
    ['add_', (here, there) => there.add_(here)],
    ['copy_ between devices', (_here, there, other) => there.mul_(other)],
    ['concat', (here, there) => concat([here, there])],
    ['mse', (_here, there, other) => mseLoss(there, other)],
  ])('is not mixed with another: %s', (_, run) => {
    const here = ones([2, 2]);
    expect(() => run(here, here.to('host:0'), here.to('host:1'))).toThrow(
      /Expected all tensors to be on the same device, but found at least two devices, \S+ and \S+!/,
    );
  });

  it('has the gradients of what lies there, and the cpu those of what lay here', () => {
    const here = tensor([1, 2, 3], { requiresGrad: true });
    const there = tensor([4, 5, 6]).to('host:0');
    there.requiresGrad = true;
    const loss = here.to('host:0').mul(there).narrow(0, 0, 2).sum();
    expect(loss.device).toBe('host:0');
    loss.backward();
    expect([here.grad?.device, here.grad?.toArray()]).toEqual(['cpu', [4, 5, 0]]);
    expect([there.grad?.device, there.grad?.toArray()]).toEqual(['host:0', [1, 2, 0]]);
    const twice = there.mul(there).mul(there);
    const [first] = grad([twice.sum()], [there], { createGraph: true });
    const [second] = grad([first!.sum()], [there]);
    expect([second?.device, second?.toArray()]).toEqual(['host:0', [24, 30, 36]]);
  });

  it('is where a parameter stays while it is trained', () => {
    const parameter = new Parameter(tensor([5, -5]).to('host:1'));
    const sgd = new optim.Adam([parameter], { lr: 0.5 });
    for (let i = 0; i < 40; i++) {
      sgd.zeroGrad();
      parameter.mul(parameter).sum().backward();
      sgd.step();
    }
    expect(parameter.device).toBe('host:1');
    for (const value of parameter.toArray() as number[]) expect(Math.abs(value)).toBeLessThan(1);
  });
});

it('a program without devices sees the cpu alone', () => {
  const named: Device[] = [tensor([1]).device, randn([200, 200]).matmul(randn([200, 200])).device];
  expect(named).toEqual(['cpu', 'cpu']);
});
