/** @file Embedding and EmbeddingBag: rows of a table, whose gradient may stay sparse. */
import { tensor, zeros } from '../creation.ts';
import { fromArray } from '../host.ts';
import { rpcName } from '../named.ts';
import { defineOp } from '../ops/define.ts';
import { embeddingBag } from '../ops/indexing.ts';
import { apply } from '../ops/op.ts';
import { ALL, check, each, FLOAT, indexed, setOf } from '../ops/takes.ts';
import { sweep } from '../scope.ts';
import { dtypes, promote, type DType } from '../dtype.ts';
import { readNumbers } from '../host.ts';
import { noGrad } from '../autograd/record.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { normalParameter } from './init.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';

/** What `Embedding` is made with. */
export interface EmbeddingOptions {
  /** Whether the gradient of the table is a sparse tensor of the rows that were read. @default false */
  sparse?: boolean;
  /** A row that starts at zero and has no gradient; negative ones count from the end. */
  paddingIdx?: number;
  /** Rows that are read are scaled, in place, to at most this norm. */
  maxNorm?: number;
  /** Of `maxNorm`. @default 2 */
  normType?: number;
  /** Divides the gradient of a row by how often it was read. @default false */
  scaleGradByFreq?: boolean;
}

const EMBEDDING_OPTIONS = optionNames<EmbeddingOptions>()('sparse paddingIdx maxNorm normType scaleGradByFreq');
const PRETRAINED_OPTIONS: ReadonlySet<string> = new Set([...EMBEDDING_OPTIONS, 'freeze']);
const BAG_OPTIONS: ReadonlySet<string> = new Set(['sparse', 'mode']);

/** The first operand as it is; its gradient is multiplied by the second. */
const scaleGradient = defineOp('scaleGradient', each(ALL), ([rows]) => rows.detach().clone());

/** `table[ids]`; its gradient names only the rows that were read. */
const sparseLookup = defineOp('embedding', indexed(each(ALL)), ([weight, at]) => {
  return sweep(() => selected(weight.detach(), at));
});

function selected(table: Tensor, ids: Tensor): Tensor {
  return table.indexSelect(0, ids.reshape([ids.size])).reshape([...ids.shape, table.shape[1] as number]);
}

function lookup(table: Tensor, ids: Tensor, sparse: boolean): Tensor {
  return sparse ? apply(sparseLookup, [table, ids], undefined) : selected(table, ids);
}

/** What ids are of: float32 is what lists of numbers make. Smaller integers are no ids in PyTorch either. */
const IDS = each(setOf('int64', 'int32', 'float32', 'float64'));

/** Rows of a table: ids (int64 or int32; whole numbers in float32 or float64) [...] → [..., dim]. */
export class Embedding extends Module {
  static readonly [rpcName] = 'nn.Embedding';
  /** [count, dim]; starts standard normal. */
  readonly weight: Parameter;
  private readonly options: EmbeddingOptions;
  /** The row that has no gradient; -1 where all have. */
  private readonly padding: number;

  /** With `sparse` the gradient of `weight` is a sparse tensor of the rows that were read; SGD and Adagrad accept it. */
  constructor(count: number, dim: number, options: EmbeddingOptions = {}) {
    super();
    checkOptionNames(options, EMBEDDING_OPTIONS, 'nn.Embedding');
    this.padding = paddingRow(count, options.paddingIdx);
    this.weight = normalParameter([count, dim]);
    this.options = options;
    if (this.padding !== -1) noGrad(() => this.weight.select(0, this.padding).zero_());
  }

  override [SETTINGS](): Settings {
    return [['', this.options]];
  }

  /** A table of given rows [count, dim]; with `freeze` (the default) they are not trained. */
  static fromPretrained(table: Tensor, options: EmbeddingOptions & { freeze?: boolean } = {}): Embedding {
    checkOptionNames(options, PRETRAINED_OPTIONS, 'nn.Embedding.fromPretrained');
    if (table.rank !== 2) throw new RangeError('Embeddings parameter is expected to be 2-dimensional');
    const { freeze = true, ...rest } = options;
    const [count, dim] = table.shape as [number, number];
    const own = { options: rest, padding: paddingRow(count, rest.paddingIdx) };
    // Made without rows: none is drawn only to be thrown away, and random numbers go on as if there had been nothing.
    return Object.assign(new Embedding(0, dim), own, { weight: new Parameter(table.detach(), !freeze) });
  }

  /** @throws RangeError naming the first id outside [0, count). */
  forward(ids: Tensor): Tensor {
    check('nn.Embedding', IDS, [ids]);
    const { maxNorm, sparse = false, scaleGradByFreq = false } = this.options;
    if (maxNorm !== undefined) this.renorm(ids, maxNorm);
    const rows = lookup(this.weight, ids, sparse);
    if (this.padding === -1 && !scaleGradByFreq) return rows;
    return sweep(() =>
      apply(scaleGradient, [rows, this.shares(ids, scaleGradByFreq, rows.dtype).unsqueeze(-1)], undefined),
    );
  }

  /** How much of its gradient each id passes on. */
  private shares(ids: Tensor, byFrequency: boolean, dtype: DType): Tensor {
    const numbers = readNumbers(ids);
    const counts = new Map<number, number>();
    if (byFrequency) for (const id of numbers) counts.set(id, (counts.get(id) ?? 0) + 1);
    const shares = Float64Array.from(numbers, (id) => (id === this.padding ? 0 : 1 / (counts.get(id) ?? 1)));
    return tensor(shares, { shape: ids.shape, dtype });
  }

  private renorm(ids: Tensor, maxNorm: number): void {
    noGrad(() =>
      sweep(() => {
        const own = [...new Set(Array.from(readNumbers(ids)))];
        const count = this.weight.shape[0] as number;
        // What reads the rows says which id there is not: until then nothing is scaled.
        if (!own.every((id) => Number.isInteger(id) && id >= 0 && id < count)) return;
        for (const id of own) {
          const row = this.weight.detach().narrow(0, id, 1);
          const size = row.norm(this.options.normType ?? 2).item();
          if (size > maxNorm) row.mul_(maxNorm / (size + 1e-7));
        }
      }),
    );
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
    const { sparse = false, mode = 'mean' } = options;
    if (mode !== 'sum' && mode !== 'mean')
      throw new RangeError(`nn.EmbeddingBag: mode has to be one of sum or mean, but got '${String(mode)}'`);
    this.weight = normalParameter([count, dim]);
    this.sparseGradient = sparse;
    this.mode = mode;
  }

  /**
   * Ids [bags, n] → [bags, dim], or flat ids [n] with `offsets` [bags], the position where each bag starts (the first must be 0,
   * and they must not fall). An empty bag gives zeros. `perSampleWeights`, of the shape of `ids` and the dtype of the weight, scale the
   * rows before they are summed; they go with mode 'sum' only. Ids and offsets may be of different integers, of which the wider has 32 bits
   * at least.
   */
  forward(ids: Tensor, offsets?: Tensor, perSampleWeights?: Tensor): Tensor {
    check('EmbeddingBag', each(FLOAT), [this.weight]);
    const wide = offsets === undefined ? ids : widened(ids, offsets.dtype);
    check('EmbeddingBag', IDS, [wide]);
    const { bags, bagOf, sizes } = offsets === undefined ? evenBags(ids) : bagsFrom(ids, offsets);
    const rows = wide.reshape([ids.size]);
    const at = fromArray(bagOf, 'int64', [ids.size]);
    const sums =
      perSampleWeights === undefined
        ? embeddingBag(this.weight, rows, at, bags, this.sparseGradient)
        : this.weighted(rows, at, bags, this.scales(ids, perSampleWeights));
    const { dtype } = sums;
    if (this.mode === 'sum') return sums;
    return sums.div(
      tensor(
        sizes.map((size) => Math.max(1, size)),
        { dtype },
      ).unsqueeze(1),
    );
  }

  /** The sums of the rows of each bag, each times its weight. */
  private weighted(rows: Tensor, bagOf: Tensor, bags: number, scales: Tensor): Tensor {
    const found = lookup(this.weight, rows, this.sparseGradient).mul(scales);
    return zeros([bags, this.weight.shape[1] as number], { dtype: found.dtype }).indexAdd(0, bagOf, found);
  }

  /** The weights of samples as a column. */
  private scales(ids: Tensor, weights: Tensor): Tensor {
    const { dtype } = this.weight;
    if (this.mode !== 'sum')
      throw new TypeError(
        `EmbeddingBag takes perSampleWeights with mode 'sum' only; this one's mode is '${this.mode}'`,
      );
    if (weights.dtype !== dtype)
      throw new TypeError(`EmbeddingBag: perSampleWeights are ${weights.dtype}, but its weight is ${dtype}`);
    if (String(weights.shape) !== String(ids.shape))
      throw new RangeError(
        `EmbeddingBag: perSampleWeights have shape [${weights.shape.join(', ')}], but ids have [${ids.shape.join(', ')}]`,
      );
    return weights.reshape([ids.size, 1]);
  }
}

/** The row that `paddingIdx` means; -1 for none. */
function paddingRow(count: number, paddingIdx: number | undefined): number {
  if (paddingIdx === undefined) return -1;
  if (!Number.isInteger(paddingIdx) || paddingIdx >= count || paddingIdx < -count)
    throw new RangeError(`paddingIdx must be within the ${count} rows of the table, but got ${paddingIdx}`);
  return paddingIdx < 0 ? paddingIdx + count : paddingIdx;
}

/** Integers, as PyTorch has them beside offsets of another width. */
function widened(ids: Tensor, offsets: DType): Tensor {
  if (dtypes[ids.dtype].kind !== 'int' || dtypes[offsets].kind !== 'int') return ids;
  const wider = promote(ids.dtype, offsets);
  return wider === ids.dtype ? ids : ids.to(wider);
}

interface Bags {
  readonly bags: number;
  /** The bag of each id. */
  readonly bagOf: BigInt64Array;
  readonly sizes: readonly number[];
}

function evenBags(ids: Tensor): Bags {
  if (ids.rank !== 2)
    throw new RangeError(`EmbeddingBag takes ids [bags, n], or ids [n] with offsets; got rank ${ids.rank}`);
  const [bags, n] = ids.shape as [number, number];
  return {
    bags,
    ...bagsOf(Array<number>(bags).fill(n)),
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
  return { bags: starts.length, ...bagsOf(sizes) };
}

function bagsOf(sizes: readonly number[]): Pick<Bags, 'bagOf' | 'sizes'> {
  const bagOf = new BigInt64Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const [bag, size] of sizes.entries()) bagOf.fill(BigInt(bag), at, (at += size));
  return { bagOf, sizes };
}
