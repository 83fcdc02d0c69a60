/** @file Layers models of TensorFlow.js as modules, against TensorFlow.js's own predict and fit. */
import * as tfc from '@tensorflow/tfjs-core';
import type * as tfLayers from '@tensorflow/tfjs-layers';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  crossEntropy,
  gradcheck,
  manualSeed,
  mseLoss,
  nn,
  optim,
  rand,
  randint,
  randn,
  saveSafetensors,
  type Tensor,
} from '../index.ts';

type Layers = typeof tfLayers;
let tfl: Layers;
beforeAll(async () => {
  tfl = await import('@tensorflow/tfjs-layers');
});

const close = (got: Tensor, wanted: ArrayLike<number>, tolerance = 1e-5): void => {
  const values = got.dataSync() as Float32Array;
  expect(values.length).toBe(wanted.length);
  values.forEach((v, i) => expect(Math.abs(v - (wanted[i] as number)), `[${i}]`).toBeLessThanOrEqual(tolerance));
};

const mlp = (): InstanceType<Layers['Sequential']> =>
  tfl.sequential({
    layers: [
      tfl.layers.dense({ units: 8, inputShape: [5], activation: 'tanh' }),
      tfl.layers.dense({ units: 3, name: 'top' }),
    ],
  });

describe('nn.fromLayers', () => {
  it('predicts what the model predicts, and names its weights', () => {
    const model = mlp();
    const module = nn.fromLayers(model);
    expect(module.namedParameters().map(([name, p]) => [name.split('.').at(-1), p.shape])).toEqual([
      ['kernel', [5, 8]],
      ['bias', [8]],
      ['kernel', [8, 3]],
      ['bias', [3]],
    ]);
    const x = randn([4, 5]);
    const wanted = model.predict(x.toTf()) as tfc.Tensor;
    close(module.forward(x), wanted.dataSync());
    expect([...module.stateDict().keys()]).toContain('top.kernel');
    expect(saveSafetensors(module.stateDict()).byteLength).toBeGreaterThan(0);
  });

  it('trains as fit does', async () => {
    const model = mlp();
    const module = nn.fromLayers(model);
    const [x, y] = [randn([16, 5]), randn([16, 3])];
    const optimizer = new optim.SGD(module.parameters(), { lr: 0.1 });
    const losses: number[] = [];
    for (let step = 0; step < 5; step++) {
      optimizer.zeroGrad();
      const loss = mseLoss(module.forward(x), y);
      loss.backward();
      optimizer.step();
      losses.push(loss.item());
    }
    model.compile({ optimizer: tfc.train.sgd(0.1), loss: 'meanSquaredError' });
    const history = await model.fit(x.toTf(), y.toTf(), { epochs: 5, batchSize: 16, shuffle: false, verbose: 0 });
    (history.history['loss'] as number[]).forEach((loss, i) => expect(loss).toBeCloseTo(losses[i] as number, 5));
    for (const [i, weight] of model.getWeights().entries()) close(module.parameters()[i] as Tensor, weight.dataSync());
  });

  it('shares its weights with the model both ways', () => {
    const model = mlp();
    const module = nn.fromLayers(model);
    const x = rand([2, 5]);
    module.loadStateDict(new Map([...module.stateDict()].map(([name, t]) => [name, t.mul(0.5)])));
    close(module.forward(x), (module.push().model.apply(x.toTf() as never) as tfc.Tensor).dataSync());
    model.setWeights(model.getWeights().map((w) => tfc.mul(w, 3)));
    close(module.pull().forward(x), (model.predict(x.toTf()) as tfc.Tensor).dataSync());
  });

  it('gives gradients of inputs too', () => {
    manualSeed(3);
    const module = nn.fromLayers(mlp()).eval();
    const x = randn([2, 5], { requiresGrad: true });
    gradcheck((t) => module.forward(t), [x]);
  });

  it('learns with embeddings, convolutions, pooling and batch statistics', () => {
    manualSeed(4);
    const words = nn.fromLayers(
      tfl.sequential({
        layers: [
          tfl.layers.embedding({ inputDim: 10, outputDim: 4, inputLength: 3 }),
          tfl.layers.flatten(),
          tfl.layers.dense({ units: 2 }),
        ],
      }),
    );
    const images = nn.fromLayers(
      tfl.sequential({
        layers: [
          tfl.layers.conv2d({ filters: 3, kernelSize: 3, inputShape: [6, 6, 1], activation: 'relu' }),
          tfl.layers.maxPooling2d({ poolSize: 2 }),
          tfl.layers.batchNormalization(),
          tfl.layers.flatten(),
          tfl.layers.dense({ units: 2 }),
        ],
      }),
    );
    const target = randint(0, 2, [6]);
    for (const [module, x] of [
      [words, randint(0, 10, [6, 3])],
      [images, randn([6, 6, 6, 1])],
    ] as const) {
      const optimizer = new optim.Adam(module.parameters(), { lr: 0.05 });
      const losses = Array.from({ length: 8 }, () => {
        optimizer.zeroGrad();
        const loss = crossEntropy(module.forward(x), target);
        loss.backward();
        optimizer.step();
        return loss.item();
      });
      expect(losses.at(-1)).toBeLessThan((losses[0] as number) * 0.8);
    }
    // The running mean has moved from zero, once a step: the backward pass, which runs the model again, left it alone.
    const moved = [...images.stateDict()].find(([name]) => name.endsWith('moving_mean'))?.[1] as Tensor;
    expect(moved.abs().sum().item()).toBeGreaterThan(0);
    const before = moved.clone();
    const loss = images.forward(randn([6, 6, 6, 1])).sum();
    const after = moved.clone();
    loss.backward();
    expect(after.equal(before)).toBe(false);
    expect(moved.equal(after)).toBe(true);
  });

  it('drops the same elements in both directions, by manualSeed', () => {
    const module = nn.fromLayers(
      tfl.sequential({
        layers: [
          tfl.layers.dropout({ rate: 0.5, inputShape: [20] }),
          tfl.layers.dense({ units: 1, useBias: false, kernelInitializer: 'ones' }),
        ],
      }),
    );
    manualSeed(9);
    const x = randn([1, 20], { requiresGrad: true });
    const seedThen = (): number => {
      manualSeed(11);
      return module.forward(x).item();
    };
    expect(seedThen()).toBe(seedThen());
    const out = module.forward(x).sum();
    out.backward();
    // A sum of what was kept, twice as large: the gradient says which.
    expect((x.grad as Tensor).mul(x).sum().item()).toBeCloseTo(out.item(), 4);
    expect((x.grad as Tensor).eq(0).any().item()).toBe(1);
    expect(module.eval().forward(x).item()).toBeCloseTo(x.sum().item(), 4);
  });

  it('refuses what it cannot repeat or return', () => {
    const noisy = nn.fromLayers(tfl.sequential({ layers: [tfl.layers.gaussianNoise({ stddev: 1, inputShape: [2] })] }));
    expect(() => noisy.forward(rand([1, 2]))).toThrow(/draws random numbers in training/);
    expect(noisy.eval().forward(rand([1, 2])).shape).toEqual([1, 2]);
    const input = tfl.input({ shape: [2] });
    const two = tfl.model({ inputs: input, outputs: [tfl.layers.dense({ units: 1 }).apply(input), input] as never });
    expect(() => nn.fromLayers(two)).toThrow('one output, this one has 2');
  });
});
