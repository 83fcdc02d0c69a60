import { describe, expect, it } from 'vitest';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { expectClean, leaf, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at, agents } = useAgents('overlap', 2);
const log: string[] = [];

/** What takes `ms` of the worker's time, both ways. */
const slowly = rpcFunction('overlap/slowly', (x: Tensor, i: number, ms: number): Tensor => {
  const out = x.mul(2);
  out.registerHook((grad) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
    log.push(`there ${i}`);
    return grad;
  });
  return out;
});

async function run(ms: number): Promise<string[]> {
  log.length = 0;
  await at(0, () =>
    context(async (id) => {
      const a = leaf([2], 1);
      const parts = await Promise.all(
        [0, 1, 2, 3].map(async (i) => {
          const x = a.mul(i + 1);
          x.registerHook((grad) => {
            log.push(`back ${i}`);
            return grad;
          });
          return rpcSync('w1', slowly, [x, i, ms]);
        }),
      );
      await backward(id, [parts.reduce((sum, part) => sum.add(part)).sum()]);
      expect(getGradients(id).get(a)?.toArray()).toEqual([20, 20]);
    }),
  );
  return [...log];
}

describe('parts of a pass that come at once', () => {
  it('send what they made before the next one runs, when they take long', async () => {
    const order = await run(4);
    const lastThere = order.findLastIndex((what) => what.startsWith('there'));
    const firstBack = order.findIndex((what) => what.startsWith('back'));
    expect(order).toHaveLength(8);
    expect(firstBack).toBeLessThan(lastThere);
    await expectClean(agents);
  });
});
