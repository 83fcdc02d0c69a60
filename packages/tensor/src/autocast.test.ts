/** @file autocast beyond single operations (which ported.test.ts compares with PyTorch's), and GradScaler step by step as PyTorch's. */
import { describe, expect, it } from 'vitest';
import {
  autocast,
  checkpoint,
  DTypeError,
  GradScaler,
  isAutocastEnabled,
  manualSeed,
  memory,
  mseLoss,
  nn,
  noGrad,
  ones,
  optim,
  Parameter,
  randn,
  scope,
  tensor,
  type GradScalerOptions,
  type Tensor,
} from './index.ts';

describe('autocast', () => {
  it('computes products in bfloat16, or float16, and losses in float32; gradients are in the dtype of the parameters', () => {
    manualSeed(1);
    const net = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
    const x = randn([3, 4]);
    for (const dtype of ['bfloat16', 'float16'] as const) {
      const [hidden, loss] = autocast(
        () => {
          const out = net.forward(x);
          return [out, mseLoss(out, ones([3, 2]))] as const;
        },
        { dtype },
      );
      expect([hidden.dtype, loss.dtype]).toEqual([dtype, 'float32']);
      loss.backward();
      const full = mseLoss(net.forward(x), ones([3, 2]));
      expect(Math.abs(full.item() - loss.item())).toBeLessThan(0.01 * full.item());
      expect(new Set(net.parameters().map((p) => p.grad?.dtype))).toEqual(new Set(['float32']));
      net.zeroGrad();
    }
  });

  it('holds across await, ends with the function, and is off where it is switched off', async () => {
    const [a, b] = [ones([2, 2]), ones([2, 2])];
    const dtype = (): string => a.matmul(b).dtype;
    const seen = autocast(async () => {
      const first = dtype();
      await Promise.resolve();
      return [first, dtype(), autocast(dtype, { enabled: false }), autocast(dtype, { dtype: 'float16' }), dtype()];
    });
    expect([dtype(), isAutocastEnabled()]).toEqual(['float32', false]);
    expect(await seen).toEqual(['bfloat16', 'bfloat16', 'float32', 'float16', 'bfloat16']);
    expect(autocast(isAutocastEnabled)).toBe(true);
    expect(() => autocast(() => { throw new Error('no'); })).toThrow('no'); // prettier-ignore
    expect([dtype(), isAutocastEnabled()]).toEqual(['float32', false]);
  });

  it('converts a parameter once for all of its uses, anew after it was changed, and never without gradients for later use with them', () => {
    const w = new Parameter(tensor([[1, 2], [3, 4]])); // prettier-ignore
    const x = ones([1, 2]);
    autocast(() => {
      expect(noGrad(() => x.matmul(w)).requiresGrad).toBe(false);
      const y = x.matmul(w);
      expect(y.requiresGrad).toBe(true);
      noGrad(() => w.mul_(2));
      expect(x.matmul(w).toArray()).toEqual([[8, 12]]);
      return undefined;
    });
    // bfloat16 has 8 bits: 1 + 1/256 is lost where the two gradients meet, as in PyTorch.
    const one = new Parameter(tensor([[1]]));
    autocast(() => tensor([[1]]).matmul(one).sum().add(tensor([[1 / 256]]).matmul(one).sum())).backward(); // prettier-ignore
    expect(one.grad?.toArray()).toEqual([[1]]);
  });

  it('leaves nothing behind', () => {
    const net = new nn.Linear(16, 16);
    const x = randn([4, 16]);
    const step = (): void => {
      scope(() => {
        autocast(() => net.forward(x).square().sum()).backward();
        for (const p of net.parameters()) {
          p.grad?.dispose();
          p.grad = null;
        }
      });
    };
    step();
    const { bytes, storages } = memory();
    for (let i = 0; i < 3; i++) step();
    expect(memory()).toMatchObject({ bytes, storages });
  });

  it('is in the second run of a checkpoint what it was in the first', () => {
    manualSeed(2);
    const net = new nn.Linear(4, 4);
    const gradients = (run: (fn: (x: Tensor) => Tensor, x: Tensor) => Tensor): unknown => {
      net.zeroGrad();
      const x = ones([2, 4], { requiresGrad: true });
      const loss = autocast(() =>
        run((t) => net.forward(t).tanh(), x)
          .float()
          .square()
          .sum(),
      );
      loss.backward();
      return [x.grad?.toArray(), ...net.parameters().map((p) => p.grad?.toArray())];
    };
    expect(gradients((fn, x) => checkpoint(fn, x))).toEqual(gradients((fn, x) => fn(x)));
    // And where it was off, it is off.
    const y = checkpoint((t: Tensor) => net.forward(t).tanh(), ones([2, 4], { requiresGrad: true }));
    expect(() => autocast(() => y.sum().backward())).not.toThrow();
  });

  it('gives the states of recurrent layers and cells in the dtypes of PyTorch', () => {
    // torch.autocast('cpu', dtype=torch.bfloat16), of x in float32 [3, 2, 4]; of its rows for cells; of x packed.
    const x = randn([3, 2, 4]);
    const row = x.select(0, 0);
    const packed = nn.utils.rnn.packPaddedSequence(x, [3, 2]);
    const dtypes = (run: () => readonly Tensor[]): string[] => autocast(run).map(({ dtype }) => dtype);
    const all = (): Record<string, string[]> => ({
      LSTM: dtypes(() => new nn.LSTM(4, 5, { layers: 2, bidirectional: true }).forward(x).flat()),
      GRU: dtypes(() => new nn.GRU(4, 5).forward(x)),
      RNN: dtypes(() => new nn.RNN(4, 5).forward(x)),
      'relu RNN': dtypes(() => new nn.RNN(4, 5, { nonlinearity: 'relu' }).forward(x)),
      LSTMCell: dtypes(() => new nn.LSTMCell(4, 5).forward(row)),
      GRUCell: dtypes(() => [new nn.GRUCell(4, 5).forward(row)]),
      RNNCell: dtypes(() => [new nn.RNNCell(4, 5).forward(row)]),
      'packed LSTM': dtypes(() => [new nn.LSTM(4, 5).forward(packed)[0].data]),
      'packed GRU': dtypes(() => [new nn.GRU(4, 5).forward(packed)[0].data]),
      'packed RNN': dtypes(() => [new nn.RNN(4, 5).forward(packed)[0].data]),
    });
    const [half, single] = ['bfloat16', 'float32'];
    const expected = {
      LSTM: [half, half, half],
      GRU: [single, single],
      RNN: [half, half],
      'relu RNN': [half, half],
      LSTMCell: [single, single],
      GRUCell: [single],
      RNNCell: [half],
      'packed LSTM': [single],
      'packed GRU': [single],
      'packed RNN': [half],
    };
    expect(all()).toEqual(expected);
    expect(noGrad(all)).toEqual(expected);
    const wide = randn([3, 2, 4], { dtype: 'float64' });
    expect(dtypes(() => [new nn.LSTM(4, 5).to('float64').forward(wide)[0]])).toEqual(['float64']);
  });

  it('refuses other dtypes and options', () => {
    expect(() => autocast(() => 1, { dtype: 'float64' as never })).toThrow(DTypeError);
    expect(() => autocast(() => 1, { cacheEnabled: false } as never)).toThrow("unknown option 'cacheEnabled'");
  });
});

describe('GradScaler', () => {
  it('scales, steps and adjusts as PyTorch', () => {
    // torch.amp.GradScaler('cpu', 8, 3, 0.25, 2) with SGD(lr 0.1, momentum 0.9); every second step is unscaled and clipped to 1.
    const inputs = [[1, 2, 3], [0.5, -1, 2], [Infinity, 1, 1], [1, 1, 1], [2, 0, 1], [NaN, 0, 0], [1, 2, 1], [1, 1, 0.3]]; // prettier-ignore
    const expected: [weights: number[], scale: number, grown: number][] = [
      [[0.800000011920929, -0.3999999761581421, -0.4000000059604645], 8, 1],
      [[0.6079614162445068, 1.0640771389007568, -1.1136913299560547], 24, 0],
      [[0.6079614162445068, 1.0640771389007568, -1.1136913299560547], 6, 0],
      [[0.3984130620956421, 2.3174889087677, -1.6887598037719727], 6, 1],
      [[-0.1089109256863594, 3.445559501647949, -1.8685693740844727], 18, 0],
      [[-0.1089109256863594, 3.445559501647949, -1.8685693740844727], 4.5, 0],
      [[-0.5437203049659729, 1.7043752670288086, -1.656684160232544], 4.5, 1],
      [[-0.9047613143920898, 0.0423690564930439, -1.4576818943023682], 13.5, 0],
    ];
    const w = new Parameter(tensor([1, -2, 0.5]));
    const optimizer = new optim.SGD([w], { lr: 0.1, momentum: 0.9 });
    const scaler = new GradScaler({ initScale: 8, growthFactor: 3, backoffFactor: 0.25, growthInterval: 2 });
    inputs.forEach((input, i) => {
      optimizer.zeroGrad();
      scaler.scale(w.mul(tensor(input)).square().sum()).backward();
      if (i % 2 === 1) {
        scaler.unscale_(optimizer);
        nn.utils.clipGradNorm_([w], 1);
      }
      expect(scaler.step(optimizer)).toBe(input.every(Number.isFinite));
      scaler.update();
      const [weights, scale, grown] = expected[i] as (typeof expected)[0];
      (w.toArray() as number[]).forEach((v, at) => expect(v).toBeCloseTo(weights[at] as number, 5));
      expect([scaler.getScale(), scaler.stateDict()._growth_tracker]).toEqual([scale, grown]);
    });
    const other = new GradScaler();
    other.loadStateDict(scaler.stateDict());
    expect(other.stateDict()).toEqual({
      scale: 13.5,
      growth_factor: 3,
      backoff_factor: 0.25,
      growth_interval: 2,
      _growth_tracker: 0,
    });
  });

  it('keeps gradients from vanishing that float16 has no place for', () => {
    const trained = (options: GradScalerOptions): number => {
      const w = new Parameter(tensor([[1]]));
      const optimizer = new optim.SGD([w], { lr: 1 });
      const scaler = new GradScaler(options);
      const loss = autocast(() => tensor([[1e-4]]).matmul(w), { dtype: 'float16' })
        .float()
        .mul(1e-4)
        .sum();
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
      return 1 - w.item();
    };
    expect(trained({ enabled: false })).toBe(0);
    expect(trained({})).toBeCloseTo(1e-8, 7);
  });

  it('refuses what is out of order, as PyTorch', () => {
    const w = new Parameter(ones([2]));
    const optimizer = new optim.SGD([w], { lr: 1 });
    const started = (): GradScaler => {
      const scaler = new GradScaler({ initScale: 8 });
      scaler.scale(w.sum()).backward();
      return scaler;
    };
    const [twice, stepped, after] = [started(), started(), started()];
    twice.unscale_(optimizer);
    expect(() => twice.unscale_(optimizer)).toThrow('unscale_() has already been called on this optimizer');
    stepped.step(optimizer);
    expect(() => stepped.step(optimizer)).toThrow('step() has already been called since the last update().');
    after.step(optimizer);
    expect(() => after.unscale_(optimizer)).toThrow('unscale_() has already been called');
    expect(() => new GradScaler().update()).toThrow('Attempted update but nothing was scaled');
    expect(() => new GradScaler().unscale_(optimizer)).toThrow('Attempted unscale_ but nothing was scaled');
    const idle = new optim.SGD([new Parameter(ones([1]))], { lr: 1 });
    expect(() => started().step(idle)).toThrow('No inf checks were recorded for this optimizer.');
    expect(() => started().update()).toThrow('No inf checks were recorded prior to update.');
    const half = new Parameter(ones([1], { dtype: 'float16' }));
    const scaler = new GradScaler();
    scaler.scale(half.sum()).backward();
    expect(() => scaler.step(new optim.SGD([half], { lr: 1 }))).toThrow('Attempting to unscale FP16 gradients.');
    expect(() => new GradScaler({ growthFactor: 1 })).toThrow('The growth factor must be > 1.0');
    expect(() => new GradScaler({ backoffFactor: 1 })).toThrow('The backoff factor must be < 1.0');
    expect(() => new GradScaler().loadStateDict({})).toThrow('the state has no scale, possibly because');
  });
});
