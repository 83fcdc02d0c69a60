/** Gradients of the worked examples, next to what PyTorch's distributed autograd gives for the same inputs. `golden/make.py` writes those. */
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, mul, rpcName, tensor, type Nested, type Tensor } from '@backwire/tensor';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

interface Case {
  readonly inputs: readonly Nested<number>[];
  /** After each pass, the gradient of each input. */
  readonly passes: readonly (readonly Nested<number>[])[];
}

const file = new URL('../golden/worked-examples.json', import.meta.url);
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: Record<string, Case> };
const { at } = useAgents('golden', 3);

const nested = rpcFunction('golden/nested', async (a: Tensor, b: Tensor) => (await rpcSync('w2', add, [a, b])).mul(2));
const useWeight = rpcFunction('golden/useWeight', async (weight: RRef<Tensor>, x: Tensor) =>
  (await weight.toHere()).mul(x),
);
const countGradients = rpcFunction('golden/countGradients', (id: bigint) => getGradients(id).size);

class Owner {
  static readonly [rpcName] = 'golden/Owner';
  readonly weight: Tensor;
  constructor(rows: Nested<number>) {
    this.weight = tensor(rows, { requiresGrad: true });
  }
  give(): Tensor {
    return this.weight;
  }
  gradient(id: bigint): Tensor | undefined {
    return getGradients(id).get(this.weight);
  }
}
rpcClass(Owner, { methods: ['give', 'gradient'] });

function expectClose(found: Tensor | undefined, expected: Nested<number>): void {
  expect(found?.shape).toEqual(tensor(expected).shape);
  expect(found?.allClose(tensor(expected), { rtol: 1e-6, atol: 1e-6 })).toBe(true);
}

async function follow(
  name: string,
  rootsOf: (...inputs: Tensor[]) => Promise<Tensor[]>,
  after?: (id: bigint) => Promise<void>,
): Promise<void> {
  const golden = cases[name] as Case;
  const inputs = golden.inputs.map((values) => tensor(values, { requiresGrad: true }));
  await context(async (id) => {
    const roots = await rootsOf(...inputs);
    for (const expected of golden.passes) {
      await backward(id, roots, { retainGraph: true });
      const gradients = getGradients(id);
      inputs.forEach((input, i) => expectClose(gradients.get(input), expected[i] as Nested<number>));
    }
    await after?.(id);
  });
}

describe("PyTorch's values", () => {
  it('of a product that is used again, over two passes', () =>
    at(0, () => follow('product', async (a, b) => [(await rpcSync('w1', mul, [a, b])).mul(a).sum()])));

  it('of a sum two hops away', () =>
    at(0, () => follow('nested', async (a, b) => [(await rpcSync('w1', nested, [a, b])).mul(a).sum()])));

  it('of several roots', () =>
    at(0, () =>
      follow('roots', async (first, second) => {
        const [a, b] = [first, second];
        const c = await rpcSync('w1', mul, [a, b]);
        return [c.sum(), a.mul(b).sum(), a.mul(a).sum()];
      }),
    ));

  it('of a leaf that its owner keeps, used on a third worker', () =>
    at(0, async () => {
      const golden = cases['leaf of an owner'] as Case & {
        weight: Nested<number>;
        weightGradient: Nested<number>;
        elsewhere: number;
      };
      const owner = remote('w1', Owner, [golden.weight]);
      await follow(
        'leaf of an owner',
        async (x) => {
          const weight = owner.remote().give();
          const out = await rpcSync('w2', useWeight, [weight, x.narrow(0, 1, 2)]);
          weight.dispose();
          return [out.sum()];
        },
        async (id) => {
          expectClose(await owner.rpcSync().gradient(id), golden.weightGradient);
          expect(await rpcSync('w2', countGradients, [id])).toBe(golden.elsewhere);
        },
      );
      owner.dispose();
    }));
});
