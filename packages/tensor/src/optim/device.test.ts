/** @file Updates of large parameters, which a device may make with kernels of its own, against the same updates in small pieces. */
import { describe, expect, it } from 'vitest';
import { backendName, manualSeed, optim, randn, type Tensor } from '../index.ts';

const piece = 2500;
const pieces = 8;

type Make = (params: Tensor[]) => optim.Optimizer;
const rules: Readonly<Record<string, Make>> = {
  SGD: (p) => new optim.SGD(p, { lr: 0.1 }),
  'SGD with decay': (p) => new optim.SGD(p, { lr: 0.1, weightDecay: 0.3 }),
  'SGD with momentum': (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9, weightDecay: 0.1 }),
  "SGD with Nesterov's momentum": (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9, nesterov: true }),
  'SGD with dampening': (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9, dampening: 0.5 }),
  Adam: (p) => new optim.Adam(p, { lr: 0.01 }),
  'Adam with decay and a large epsilon': (p) => new optim.Adam(p, { lr: 0.01, weightDecay: 0.1, eps: 0.1 }),
  AMSGrad: (p) => new optim.Adam(p, { lr: 0.01, amsgrad: true }),
  AdamW: (p) => new optim.AdamW(p, { lr: 0.01, weightDecay: 0.2 }),
};

function leaf(values: Tensor): Tensor {
  const t = values.clone();
  t.requiresGrad = true;
  return t;
}

describe(`updates of ${piece * pieces} elements on ${backendName()}`, () => {
  it.each(Object.entries(rules))('%s equals the update of its parts', (_name, make) => {
    manualSeed(7);
    const start = randn([pieces, piece]);
    const whole = leaf(start);
    const parts = start.split(1).map(leaf);
    const large = make([whole]);
    const small = make(parts);
    for (let step = 0; step < 4; step++) {
      const g = randn([pieces, piece]);
      large.step([g]);
      small.step(g.split(1));
    }
    parts.forEach((part, i) => {
      expect(whole.detach().narrow(0, i, 1).allClose(part.detach(), { rtol: 1e-6, atol: 1e-6 })).toBe(true);
    });
  });

  it('leaves snapshots, copies and the gradient as they were, and moves views', () => {
    manualSeed(8);
    const p = leaf(randn([pieces, piece]));
    const row = p.detach().narrow(0, 1, 1);
    // Read by a kernel first: what was uploaded may share the memory of the snapshot.
    const before = p.detach().dataSync();
    p.detach().mul(2).dataSync();
    const kept = before.slice();
    const g = randn([pieces, piece]);
    const gradient = g.dataSync().slice();
    const optimizer = new optim.SGD([p], { lr: 0.5 });
    for (let step = 0; step < 2; step++) optimizer.step([g]);
    expect(before).toEqual(kept);
    expect(g.dataSync()).toEqual(gradient);
    expect(p.storage.version).toBe(2);
    const moved = row.dataSync();
    for (const i of [0, 1, piece - 1]) {
      const at = piece + i;
      expect(moved[i]).toBeCloseTo((kept[at] as number) - (gradient[at] as number), 5);
    }
  });

  it('refuses a backward pass over a parameter that a step has changed', () => {
    const p = leaf(randn([pieces, piece]));
    const loss = p.square().sum();
    new optim.SGD([p], { lr: 0.1 }).step([randn([pieces, piece])]);
    expect(() => loss.backward()).toThrow(/modified by an inplace operation/);
  });
});
