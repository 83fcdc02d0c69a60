/** @file Embedding and EmbeddingBag: rows of a table, whose gradient may stay sparse. */
import { tensor, zeros } from '../creation.ts';
import { rpcName } from '../named.ts';
import { defineOp } from '../ops/define.ts';
import { apply } from '../ops/op.ts';
import { ALL, check, each, FLOAT, indexed } from '../ops/takes.ts';
import { sweep } from '../scope.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { normalParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames } from '../option-names.ts';

const EMBEDDING_OPTIONS: ReadonlySet<string> = new Set(['sparse']);
const BAG_OPTIONS: ReadonlySet<string> = new Set(['sparse', 'mode']);

/** `table[ids]`; its gradient names only the rows that were read. */
const sparseLookup = defineOp('embedding', 'embedding', indexed(each(ALL)), ([table, ids]) => {
  const [weight, at] = [table as Tensor, ids as Tensor];
  return sweep(() => selected(weight.detach(), at));
});

function selected(table: Tensor, ids: Tensor): Tensor {
  return table.indexSelect(0, ids.reshape([ids.size])).reshape([...ids.shape, table.shape[1] as number]);
}

function lookup(table: Tensor, ids: Tensor, sparse: boolean): Tensor {
  return sparse ? apply(sparseLookup, [table, ids], undefined) : selected(table, ids);
}

/** Rows of a table: ids (any integer dtype) [...] → [..., dim]. */
export class Embedding extends Module {
  static readonly [rpcName] = 'nn.Embedding';
  /** [count, dim]; starts standard normal. */
  readonly weight: Parameter;
  private readonly sparseGradient: boolean;

  /** With `sparse` the gradient of `weight` is a sparse tensor of the rows that were read; SGD and Adagrad accept it. */
  constructor(count: number, dim: number, options: { sparse?: boolean } = {}) {
    super();
    checkOptionNames(options, EMBEDDING_OPTIONS, 'nn.Embedding');
    this.weight = normalParameter([count, dim]);
    this.sparseGradient = options.sparse === true;
  }

  /** @throws RangeError naming the first id outside [0, count). */
  forward(ids: Tensor): Tensor {
    return lookup(this.weight, ids, this.sparseGradient);
  }
}

/** Sums or means of rows, a bag at a time. */
export class EmbeddingBag extends Module {
  static readonly [rpcName] = 'nn.EmbeddingBag';
  /** [count, dim]; starts standard normal. */
  readonly weight: Parameter;
  private readonly sparseGradient: boolean;
  private readonly mode: 'sum' | 'mean';

  constructor(count: number, dim: number, options: { sparse?: boolean; mode?: 'sum' | 'mean' } = {}) {
    super();
    checkOptionNames(options, BAG_OPTIONS, 'nn.EmbeddingBag');
    this.weight = normalParameter([count, dim]);
    this.sparseGradient = options.sparse === true;
    this.mode = options.mode ?? 'mean';
  }

  /**
   * Ids [bags, n] → [bags, dim], or flat ids [n] with `offsets` [bags], the position where each bag starts (the first must be 0,
   * and they must not fall). An empty bag gives zeros.
   */
  forward(ids: Tensor, offsets?: Tensor): Tensor {
    check('EmbeddingBag', each(FLOAT), [this.weight]);
    const { bags, bagOf, sizes } = offsets === undefined ? evenBags(ids) : bagsFrom(ids, offsets);
    const rows = lookup(this.weight, ids.reshape([ids.size]), this.sparseGradient);
    const { dtype } = rows;
    const sums = zeros([bags, this.weight.shape[1] as number], { dtype }).indexAdd(
      0,
      tensor(bagOf, { dtype: 'int64' }),
      rows,
    );
    if (this.mode === 'sum') return sums;
    return sums.div(
      tensor(
        sizes.map((size) => Math.max(1, size)),
        { dtype },
      ).unsqueeze(1),
    );
  }
}

interface Bags {
  readonly bags: number;
  readonly bagOf: readonly number[];
  readonly sizes: readonly number[];
}

function evenBags(ids: Tensor): Bags {
  if (ids.rank !== 2)
    throw new RangeError(`EmbeddingBag takes ids [bags, n], or ids [n] with offsets; got rank ${ids.rank}`);
  const [bags, n] = ids.shape as [number, number];
  return {
    bags,
    bagOf: Array.from({ length: bags * n }, (_, i) => Math.floor(i / n)),
    sizes: Array<number>(bags).fill(n),
  };
}

function bagsFrom(ids: Tensor, offsets: Tensor): Bags {
  if (ids.rank !== 1) throw new RangeError(`EmbeddingBag with offsets takes ids [n]; got rank ${ids.rank}`);
  const starts = Array.from(offsets.contiguous().dataSync(), Number);
  if (starts.length > 0 && starts[0] !== 0) throw new RangeError(`offsets[0] has to be 0, got ${starts[0]}`);
  const sizes = starts.map((start, i) => (starts[i + 1] ?? ids.size) - start);
  const wrong = sizes.findIndex((size) => size < 0);
  if (wrong !== -1)
    throw new RangeError(`offsets fall, or pass the ${ids.size} ids, after offsets[${wrong}] = ${starts[wrong]}`);
  return { bags: starts.length, bagOf: sizes.flatMap((size, bag) => Array<number>(size).fill(bag)), sizes };
}
