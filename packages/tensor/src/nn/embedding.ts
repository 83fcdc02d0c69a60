/** @file Embedding: rows of a table, whose gradient may stay sparse. */
import { checkMade } from '../arguments.ts';
import { noGrad } from '../autograd/record.ts';
import { rpcName } from '../named.ts';
import { check } from '../ops/takes.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { normalParameter } from './init.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';
import { IDS, lookup, overRows, paddingRow, renormRows, shareGradients } from './table-rows.ts';

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

/** Rows of a table: ids (int64 or int32; whole numbers in float32 or float64) [...] → [..., dim]. */
export class Embedding extends Module {
  static readonly [rpcName] = 'nn.Embedding';
  /** [count, dim]; starts standard normal. */
  readonly weight: Parameter;
  private readonly options: EmbeddingOptions;
  /** The row that has no gradient; -1 where all have. */
  private readonly padding: number;

  /** With `sparse` the gradient of `weight` is a sparse tensor of the rows that were read; SGD, Adagrad and SparseAdam accept it. */
  constructor(count: number, dim: number, options: EmbeddingOptions = {}) {
    super();
    checkOptionNames(options, EMBEDDING_OPTIONS, 'nn.Embedding');
    checkMade(new.target, [count, dim, options]);
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
    const { freeze: _, ...rest } = options;
    return overRows(table, options, (count, dim) => Object.assign(new Embedding(count, dim), { options: rest }));
  }

  /** @throws RangeError naming the first id outside [0, count). */
  forward(ids: Tensor): Tensor {
    check('nn.Embedding', IDS, [ids]);
    const { maxNorm, normType = 2, sparse = false, scaleGradByFreq = false } = this.options;
    if (maxNorm !== undefined) renormRows(this.weight, ids, maxNorm, normType);
    const rows = lookup('nn.Embedding', this.weight, ids, sparse);
    if (this.padding === -1 && !scaleGradByFreq) return rows;
    return shareGradients(rows, ids, this.padding, scaleGradByFreq);
  }
}
