/** @file Six models against PyTorch: from the same weights and data the same loss at each of 30 steps (golden/models.py). */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { backendName, loadSafetensors, scope, type Tensor } from '../src/index.ts';
import type { MakeExample } from './models/example.ts';
import { gcn } from './models/gcn.ts';
import { gpt } from './models/gpt.ts';
import { lstm } from './models/lstm.ts';
import { ppo } from './models/ppo.ts';
import { resnet } from './models/resnet.ts';
import { vae } from './models/vae.ts';

const golden = (name: string): URL => new URL(`../golden/${name}`, import.meta.url);
const curves = JSON.parse(readFileSync(golden('models.json'), 'utf8')) as Record<string, number[]>;
const { tensors } = loadSafetensors(readFileSync(golden('models.safetensors')));

/** Software that plays a GPU takes long over convolutions. */
const STEPS = backendName() === 'webgpu' ? 5 : 30;

/** The tensors whose names begin with `prefix`, without it. */
function under(prefix: string): Map<string, Tensor> {
  const found = [...tensors].filter(([name]) => name.startsWith(prefix));
  return new Map(found.map(([name, t]) => [name.slice(prefix.length), t]));
}

describe('models follow PyTorch', { timeout: 120_000 }, () => {
  const worst: string[] = [];
  it.each<[string, MakeExample]>(Object.entries({ gpt, resnet, vae, lstm, ppo, gcn }))('%s', (name, make) => {
    const weights = under(`${name}.`);
    const { model, step } = make((one) => {
      const t = weights.get(`data.${one}`);
      if (t === undefined) throw new RangeError(`${name} has no data '${one}'`);
      return t;
    });
    // What PyTorch lists besides: the data, and a weight that is tied under its second name.
    const { missing, unexpected } = model.loadStateDict(weights, { strict: false });
    expect(missing).toEqual([]);
    expect(unexpected.filter((one) => !one.startsWith('data.') && one !== 'head.weight')).toEqual([]);
    const expected = (curves[name] as number[]).slice(0, STEPS);
    const gaps = expected.map((loss, i) => Math.abs(scope(() => step(i).item()) - loss));
    expect(Math.max(...gaps), String(gaps)).toBeLessThan(1e-5);
    worst.push(`${name} ${Math.max(...gaps).toExponential(1)}`);
  });

  afterAll(() => {
    console.info(`${backendName()}, ${STEPS} steps, at most this far from PyTorch's loss: ${worst.join(', ')}`);
  });
});
