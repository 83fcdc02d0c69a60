/** @file EmbeddingBag: sums, means or largest elements of rows of a table, a bag of rows at a time. */
import { calledAs } from '../called-as.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { noGrad } from '../autograd/record.ts';
import { tensor, zeros } from '../creation.ts';
import { dtypes, promote, type DType } from '../dtype.ts';
import { fromArray, readNumbers } from '../host.ts';
import { rpcName } from '../named.ts';
import { embeddingBag } from '../ops/indexing.ts';
import { check, each, FLOAT } from '../ops/takes.ts';
import { where } from '../ops/where.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { normalParameter } from './init.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';
import { IDS, lookup, overRows, paddingRow, renormRows, shareGradients } from './table-rows.ts';

/** What `EmbeddingBag` is made with. */
export interface EmbeddingBagOptions {
  /** What is made of the rows of a bag; with 'max' element by element, and its gradient goes to the first that is so large. @default 'mean' */
  mode?: 'sum' | 'mean' | 'max';
  /** Whether the gradient of the table is a sparse tensor of the rows that were read; not with mode 'max'. @default false */
  sparse?: boolean;
  /** A row that starts at zero and has no gradient; bags are without the ids that name it. Negative ones count from the end. */
  paddingIdx?: number;
  /** Whether the last of `offsets` is where the last bag ends, and no bag of its own: ids from there on are in none. @default false */
  includeLastOffset?: boolean;
  /** Rows that are read are scaled, in place, to at most this norm. */
  maxNorm?: number;
  /** Of `maxNorm`. @default 2 */
  normType?: number;
  /**
   * Divides the gradient of a row by how often it was read; not with mode 'max'. PyTorch's kernel for CPUs takes the counts of other rows.
   * @default false
   */
  scaleGradByFreq?: boolean;
}

const OPTIONS = optionNames<EmbeddingBagOptions>()(
  'mode sparse paddingIdx includeLastOffset maxNorm normType scaleGradByFreq',
);
const PRETRAINED_OPTIONS: ReadonlySet<string> = new Set([...OPTIONS, 'freeze']);

/** What is in the bags: an id after the other, and for each its bag. */
interface Entries {
  /** [entries] */
  readonly ids: Tensor;
  readonly bagOf: Tensor;
  /** How many entries each bag has. */
  readonly sizes: readonly number[];
  /** How the rows of the entries are scaled, [entries, 1]. */
  readonly scales: Tensor | undefined;
}

/** Sums, means or largest elements of rows, a bag at a time. */
export class EmbeddingBag extends Module {
  static readonly [rpcName] = 'nn.EmbeddingBag';
  /** [count, dim]; starts standard normal. */
  readonly weight: Parameter;
  private readonly options: EmbeddingBagOptions & { readonly mode: 'sum' | 'mean' | 'max' };
  /** The row that counts for nothing; -1 where all count. */
  private readonly padding: number;

  constructor(count: number, dim: number, options: EmbeddingBagOptions = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.EmbeddingBag');
    checkMade(new.target, [count, dim, options]);
    const { mode = 'mean', sparse, scaleGradByFreq } = options;
    if (mode !== 'sum' && mode !== 'mean' && mode !== 'max')
      throw new RangeError(`nn.EmbeddingBag: mode has to be one of sum, mean or max, but got '${String(mode)}'`);
    if (mode === 'max' && sparse === true) throw new TypeError("nn.EmbeddingBag: mode 'max' has no sparse gradients");
    if (mode === 'max' && scaleGradByFreq === true)
      throw new TypeError("nn.EmbeddingBag: mode 'max' does not scale gradients by the frequency");
    this.padding = paddingRow(count, options.paddingIdx);
    this.weight = normalParameter([count, dim]);
    this.options = { ...options, mode };
    if (this.padding !== -1) noGrad(() => this.weight.select(0, this.padding).zero_());
  }

  override [SETTINGS](): Settings {
    return [['', this.options]];
  }

  /** Over a table of given rows [count, dim]; with `freeze` (the default) they are not trained. */
  static fromPretrained(table: Tensor, options: EmbeddingBagOptions & { freeze?: boolean } = {}): EmbeddingBag {
    checkOptionNames(options, PRETRAINED_OPTIONS, 'nn.EmbeddingBag.fromPretrained');
    const { freeze: _, paddingIdx, ...rest } = options;
    return overRows(table, options, (count, dim) => {
      const bag = new EmbeddingBag(count, dim, rest);
      const all = paddingIdx === undefined ? bag.options : { ...bag.options, paddingIdx };
      return Object.assign(bag, { options: all });
    });
  }

  /**
   * Ids [bags, n] → [bags, dim], or flat ids [n] with `offsets` [bags], the position where each bag starts (the first must be 0,
   * and they must not fall). An empty bag gives zeros. `perSampleWeights`, of the shape of `ids` and the dtype of the weight, scale the
   * rows before they are summed; they go with mode 'sum' only. Ids and offsets may be of different integers, of which the wider has 32 bits
   * at least.
   * @throws ShapeError naming the first id outside [0, count).
   */
  forward(ids: Tensor, offsets?: Tensor, perSampleWeights?: Tensor): Tensor {
    checkTensors(
      'EmbeddingBag.forward',
      [ids, offsets, perSampleWeights].filter((one) => one !== undefined),
    );
    check('EmbeddingBag', each(FLOAT), [this.weight]);
    const wide = offsets === undefined ? ids : widened(ids, offsets.dtype);
    check('EmbeddingBag', IDS, [wide]);
    const { maxNorm, normType = 2, includeLastOffset = false, mode } = this.options;
    const sizes = offsets === undefined ? evenSizes(ids) : sizesFrom(ids, offsets, includeLastOffset);
    const scales = perSampleWeights === undefined ? undefined : this.scales(ids, perSampleWeights);
    if (maxNorm !== undefined) renormRows(this.weight, wide, maxNorm, normType);
    const entries = this.entries(wide.reshape([ids.size]), sizes, scales);
    if (mode === 'max') return this.largest(entries);
    const sums = this.sums(entries);
    if (mode === 'sum') return sums;
    const counts = entries.sizes.map((size) => Math.max(1, size));
    return sums.div(tensor(counts, { dtype: sums.dtype }).unsqueeze(1));
  }

  /** Without the ids behind the last bag, and those of the padding. */
  private entries(ids: Tensor, sizes: readonly number[], scales: Tensor | undefined): Entries {
    const bagOf = bagsOf(sizes);
    const { padding } = this;
    if (padding === -1 && bagOf.length === ids.size)
      return { ids, bagOf: fromArray(bagOf, 'int64', [ids.size]), sizes, scales };
    const numbers = readNumbers(ids);
    const kept = [...bagOf.keys()].filter((i) => numbers[i] !== padding);
    const left = new Array<number>(sizes.length).fill(0);
    for (const i of kept) left[Number(bagOf[i])]!++;
    const positions = fromArray(BigInt64Array.from(kept, BigInt), 'int64', [kept.length]);
    return {
      ids: ids.indexSelect(0, positions),
      bagOf: fromArray(
        BigInt64Array.from(kept, (i) => bagOf[i] as bigint),
        'int64',
        [kept.length],
      ),
      sizes: left,
      scales: scales?.indexSelect(0, positions),
    };
  }

  private sums({ ids, bagOf, sizes, scales }: Entries): Tensor {
    const { sparse = false, scaleGradByFreq = false } = this.options;
    const bags = sizes.length;
    if (scales === undefined && !scaleGradByFreq)
      return calledAs('nn.EmbeddingBag', () => embeddingBag(this.weight, ids, bagOf, bags, sparse));
    const read = lookup('nn.EmbeddingBag', this.weight, ids, sparse);
    const rows = scaleGradByFreq ? shareGradients(read, ids, -1, true) : read;
    return this.empty(bags, rows).indexAdd(0, bagOf, scales === undefined ? rows : rows.mul(scales));
  }

  private largest({ ids, bagOf, sizes }: Entries): Tensor {
    const rows = lookup('nn.EmbeddingBag', this.weight, ids, false);
    const bags = sizes.length;
    if (ids.size === 0) return this.empty(bags, rows).indexAdd(0, bagOf, rows);
    return sweep(() => {
      const found = rows.gather(0, firstLargest(rows, sizes));
      if (sizes.every((size) => size > 0)) return found;
      const full = tensor(sizes.map((size) => size > 0)).unsqueeze(1);
      return where(full, found, zeros([], { dtype: found.dtype }));
    });
  }

  private empty(bags: number, { dtype }: Tensor): Tensor {
    return zeros([bags, this.weight.shape[1] as number], { dtype });
  }

  /** The weights of samples as a column. */
  private scales(ids: Tensor, weights: Tensor): Tensor {
    const { dtype } = this.weight;
    const { mode } = this.options;
    if (mode !== 'sum')
      throw new TypeError(`EmbeddingBag takes perSampleWeights with mode 'sum' only; this one's mode is '${mode}'`);
    if (weights.dtype !== dtype)
      throw new TypeError(`EmbeddingBag: perSampleWeights are ${weights.dtype}, but its weight is ${dtype}`);
    if (String(weights.shape) !== String(ids.shape))
      throw new RangeError(
        `EmbeddingBag: perSampleWeights have shape [${weights.shape.join(', ')}], but ids have [${ids.shape.join(', ')}]`,
      );
    return weights.reshape([ids.size, 1]);
  }
}

/**
 * For each bag and column the row [entries, dim] in which the first of its largest elements stands; bags lie one after the other. NaN is
 * largest only where it is the first: as in PyTorch, nothing compares greater with it, and it with nothing.
 */
function firstLargest(rows: Tensor, sizes: readonly number[]): Tensor {
  const width = rows.shape[1] as number;
  const values = readNumbers(rows);
  const positions = new BigInt64Array(sizes.length * width);
  let from = 0;
  for (const [bag, size] of sizes.entries()) {
    for (let k = 0; size > 0 && k < width; k++) {
      let best = from;
      for (let i = from + 1; i < from + size; i++) if (values[i * width + k]! > values[best * width + k]!) best = i;
      positions[bag * width + k] = BigInt(best);
    }
    from += size;
  }
  return fromArray(positions, 'int64', [sizes.length, width]);
}

/** Integers, as PyTorch has them beside offsets of another width. */
function widened(ids: Tensor, offsets: DType): Tensor {
  if (dtypes[ids.dtype].kind !== 'int' || dtypes[offsets].kind !== 'int') return ids;
  const wider = promote(ids.dtype, offsets);
  return wider === ids.dtype ? ids : ids.to(wider);
}

/** How many ids each bag has. */
function evenSizes(ids: Tensor): number[] {
  if (ids.rank !== 2)
    throw new RangeError(`EmbeddingBag takes ids [bags, n], or ids [n] with offsets; got rank ${ids.rank}`);
  const [bags, n] = ids.shape as [number, number];
  return Array<number>(bags).fill(n);
}

/** @param closed whether the last offset is the end of the last bag */
function sizesFrom(ids: Tensor, offsets: Tensor, closed: boolean): number[] {
  if (ids.rank !== 1) throw new RangeError(`EmbeddingBag with offsets takes ids [n]; got rank ${ids.rank}`);
  if (offsets.rank !== 1)
    throw new RangeError(`EmbeddingBag takes offsets [bags], one for each bag; got [${offsets.shape.join(', ')}]`);
  const given = Array.from(offsets.contiguous().dataSync(), Number);
  if (closed && given.length === 0)
    throw new RangeError(
      'EmbeddingBag with includeLastOffset takes offsets of which the last ends the last bag; got none',
    );
  if (given.length > 0 && given[0] !== 0) throw new RangeError(`offsets[0] has to be 0, got ${given[0]}`);
  const part = given.find((offset) => !Number.isInteger(offset));
  if (part !== undefined) throw new RangeError(`offsets have to be whole numbers, but got ${part}`);
  const ends = closed ? given : [...given, ids.size];
  const sizes = ends.slice(1).map((end, i) => end - (ends[i] as number));
  // The last bag may end before the last id, where its end is given, but not behind it.
  const wrong = sizes.findIndex((size, i) => size < 0 || (ends[i + 1] as number) > ids.size);
  if (wrong !== -1) {
    const at = Math.min(wrong + 1, given.length - 1);
    throw new RangeError(`offsets fall, or pass the ${ids.size} ids, at offsets[${at}] = ${given[at]}`);
  }
  return sizes;
}

/** The bag of each id. */
function bagsOf(sizes: readonly number[]): BigInt64Array {
  const bagOf = new BigInt64Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const [bag, size] of sizes.entries()) bagOf.fill(BigInt(bag), at, (at += size));
  return bagOf;
}
