import { manualSeed, randn, rpcFunction, tensor, type Tensor } from 'backwire';

export const COUNT = 1_000;

/** All samples: features [COUNT, 8] and what is to be learnt of them [COUNT, 1]. They are only on the worker that is asked. */
let all: { x: Tensor; y: Tensor } | undefined;
function samples(): { x: Tensor; y: Tensor } {
  if (all === undefined) {
    manualSeed(3);
    const x = randn([COUNT, 8]);
    all = { x, y: x.sum(1, true) };
  }
  return all;
}

/** The samples with these numbers, as one batch. */
export const batch = rpcFunction('data/batch', (rows: number[]): [x: Tensor, y: Tensor] => {
  const index = tensor(rows, { dtype: 'int64' });
  return [samples().x.indexSelect(0, index), samples().y.indexSelect(0, index)];
});
