/** @file MultiheadAttention: several attentions side by side, each over its part of the channels (Vaswani et al. 2017). */
import { checkGivenOptions } from '../given.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { zeros } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { rpcName } from '../named.ts';
import { bmm } from '../ops/matmul.ts';
import { dropout, linear } from '../ops/composite.ts';
import { concat } from '../ops/join.ts';
import { checkMask, safeSoftmax } from '../ops/masking.ts';
import { optionNames, checkOptionNames } from '../option-names.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { xavierNormal_ } from './initial.ts';
import { Linear } from './linear.ts';
import { Module } from './module.ts';

/** What `MultiheadAttention` is made with. */
export interface AttentionOptions {
  /** Of the attention weights, while training. @default 0 */
  dropout?: number;
  /** @default true */
  bias?: boolean;
  /** Adds a learned key and value that can always be attended to. @default false */
  addBiasKv?: boolean;
  /** Adds a key and value of zeros. @default false */
  addZeroAttn?: boolean;
  /** Channels of keys and values. @default embedDim */
  kdim?: number;
  vdim?: number;
  /** [batch, sequence, channels] instead of [sequence, batch, channels]. @default false */
  batchFirst?: boolean;
}

const OPTIONS = optionNames<AttentionOptions>()('dropout bias addBiasKv addZeroAttn kdim vdim batchFirst');

/** What one call of `MultiheadAttention` may be told: masks, and what to do with the weights. */
export interface AttentionCall {
  /** [batch, keys] or [keys]: true, or -Infinity, where there is nothing to attend to. */
  keyPaddingMask?: Tensor | undefined;
  /** Whether the weights are returned, too; those of a query that may attend to nothing are NaN, which is 0 without. @default true */
  needWeights?: boolean;
  /** [queries, keys] or [batch * heads, queries, keys]: true where attention is forbidden, or added to the scores. */
  attnMask?: Tensor | undefined;
  /** Whether the weights are the mean over the heads. @default true */
  averageAttnWeights?: boolean;
  /** That `attnMask` is the causal one, which has to be given; each position then sees only those before it and itself. @default false */
  isCausal?: boolean;
}

const CALL = optionNames<AttentionCall>()('keyPaddingMask needWeights attnMask averageAttnWeights isCausal');

/** Xavier's uniform bound of a matrix. */
function xavier(shape: readonly [number, number]): Parameter {
  return uniformParameter(shape, Math.sqrt(6 / (shape[0] + shape[1])));
}

/** A mask as numbers to be added. */
function added(mask: Tensor, like: Tensor): Tensor {
  if (mask.dtype !== 'bool') return mask;
  return zeros(mask.shape, { dtype: like.dtype }).maskedFill(mask, -Infinity);
}

/** How scores become weights. */
interface Scoring {
  readonly attnMask: Tensor | undefined;
  readonly padding: Tensor | undefined;
  readonly normalise: (scores: Tensor) => Tensor;
}

/** @throws ShapeError unless all have a batch, or none has. */
function checkRanks(query: Tensor, key: Tensor, value: Tensor): void {
  const { rank } = query;
  if (rank !== 2 && rank !== 3)
    throw new ShapeError(
      `MultiheadAttention: query should be unbatched 2D or batched 3D tensor but received ${rank}-D query tensor`,
    );
  if (key.rank === rank && value.rank === rank) return;
  throw new ShapeError(
    `MultiheadAttention: For ${rank === 2 ? 'unbatched' : 'batched'} (${rank}-D) query, expected key and value to be ${rank}-D but found ${key.rank}-D and ${value.rank}-D tensors respectively`,
  );
}

/** Query, key and value [sequence, batch, channels], or without batch, to the attended values and the weights. */
export class MultiheadAttention extends Module {
  static readonly [rpcName] = 'nn.MultiheadAttention';
  /** [3 embedDim, embedDim]: of queries, keys and values; null where these have channels of their own number. */
  readonly in_proj_weight: Parameter | null = null;
  readonly q_proj_weight: Parameter | null = null;
  readonly k_proj_weight: Parameter | null = null;
  readonly v_proj_weight: Parameter | null = null;
  readonly in_proj_bias: Parameter | null;
  readonly bias_k: Parameter | null;
  readonly bias_v: Parameter | null;
  readonly out_proj: Linear;
  private readonly heads: number;
  private readonly dropout: number;
  private readonly batchFirst: boolean;
  private readonly zeroAttn: boolean;
  readonly embedDim: number;

  constructor(embedDim: number, heads: number, options: AttentionOptions = {}) {
    checkMade(new.target, [embedDim, heads, options]);
    super();
    checkOptionNames(options, OPTIONS, 'nn.MultiheadAttention');
    const { bias = true, kdim = embedDim, vdim = embedDim } = options;
    if (!(embedDim > 0 && heads > 0))
      throw new RangeError(`embedDim and heads must be greater than 0, got ${embedDim} and ${heads} instead`);
    if (embedDim % heads !== 0) throw new RangeError('embedDim must be divisible by the number of heads');
    this.embedDim = embedDim;
    this.heads = heads;
    this.dropout = options.dropout ?? 0;
    this.batchFirst = options.batchFirst ?? false;
    this.zeroAttn = options.addZeroAttn ?? false;
    if (kdim === embedDim && vdim === embedDim) this.in_proj_weight = xavier([3 * embedDim, embedDim]);
    else {
      this.q_proj_weight = xavier([embedDim, embedDim]);
      this.k_proj_weight = xavier([embedDim, kdim]);
      this.v_proj_weight = xavier([embedDim, vdim]);
    }
    this.in_proj_bias = bias ? new Parameter(zeros([3 * embedDim])) : null;
    this.out_proj = new Linear(embedDim, embedDim, { bias });
    this.out_proj.bias?.detach().zero_();
    this.bias_k = options.addBiasKv === true ? xavierNormal_(new Parameter(zeros([1, 1, embedDim]))) : null;
    this.bias_v = options.addBiasKv === true ? xavierNormal_(new Parameter(zeros([1, 1, embedDim]))) : null;
  }

  forward(query: Tensor, key: Tensor, value: Tensor, options: AttentionCall = {}): [Tensor, Tensor | null] {
    checkGivenOptions('MultiheadAttention.forward()', options);
    checkOptionNames(options, CALL, 'MultiheadAttention.forward()');
    checkTensors('MultiheadAttention.forward', [query, key, value]);
    checkRanks(query, key, value);
    checkMask('MultiheadAttention: attnMask', options.attnMask);
    checkMask('MultiheadAttention: keyPaddingMask', options.keyPaddingMask);
    if (options.isCausal === true && options.attnMask === undefined)
      throw new ShapeError('MultiheadAttention: Need attnMask if specifying the isCausal hint.');
    const single = query.rank === 2;
    const inner = (t: Tensor): Tensor => (single ? t.unsqueeze(1) : this.batchFirst ? t.transpose(0, 1) : t);
    const { attnMask, keyPaddingMask, needWeights = true } = options;
    if (single && keyPaddingMask !== undefined && keyPaddingMask.rank !== 1)
      throw new ShapeError(
        `MultiheadAttention: beside a query of one sequence [L, E] the keyPaddingMask is [${key.shape[0]}], but got [${keyPaddingMask.shape.join(', ')}]`,
      );
    const padding = single ? keyPaddingMask?.unsqueeze(0) : keyPaddingMask;
    // As in PyTorch: a query without any key to attend to has weights of NaN, and attends to nothing where nobody asks for them.
    const normalise = needWeights ? (scores: Tensor): Tensor => scores.softmax(-1) : safeSoftmax;
    const [out, weights] = this.attend(inner(query), inner(key), inner(value), { attnMask, padding, normalise });
    const shown = single ? out.squeeze(1) : this.batchFirst ? out.transpose(0, 1) : out;
    if (!needWeights) return [shown, null];
    const mean = options.averageAttnWeights === false ? weights : weights.mean(1);
    return [shown, single ? mean.squeeze(0) : mean];
  }

  private project(query: Tensor, key: Tensor, value: Tensor): [Tensor, Tensor, Tensor] {
    const e = this.embedDim;
    const weights =
      this.in_proj_weight === null
        ? [this.q_proj_weight, this.k_proj_weight, this.v_proj_weight]
        : this.in_proj_weight.chunk(3, 0);
    for (const [i, t, name] of [
      [1, key, 'keys'],
      [2, value, 'values'],
    ] as const) {
      const width = weights[i]?.shape[1];
      if (t.shape[2] !== width)
        throw new ShapeError(`MultiheadAttention: ${name} have ${width} channels, got [${t.shape.join(', ')}]`);
    }
    const part = (t: Tensor, i: number): Tensor =>
      linear(t, weights[i] as Tensor, this.in_proj_bias?.narrow(0, i * e, e) ?? null);
    return [part(query, 0), part(key, 1), part(value, 2)];
  }

  /** All of [sequence, batch, channels]; the weights are [batch, heads, queries, keys]. */
  private attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    { attnMask, padding, normalise }: Scoring,
  ): [Tensor, Tensor] {
    const [length, batch, e] = query.shape as [number, number, number];
    if (e !== this.embedDim)
      throw new ShapeError(`MultiheadAttention: was expecting embedding dimension of ${this.embedDim}, but got ${e}`);
    if (key.shape[0] !== value.shape[0] || key.shape[1] !== value.shape[1])
      throw new ShapeError(
        `MultiheadAttention: key's sequence and batch dims [${key.shape.join(', ')}] do not match value's [${value.shape.join(', ')}]`,
      );
    if (key.shape[1] !== batch)
      throw new ShapeError(`MultiheadAttention: a batch of ${batch} queries does not fit one of ${key.shape[1]} keys`);
    const [q, ...projected] = this.project(query, key, value);
    let [k, v] = projected;
    let extra = 0;
    if (this.bias_k !== null && this.bias_v !== null) {
      k = concat([k, this.bias_k.expand([1, batch, e])]);
      v = concat([v, this.bias_v.expand([1, batch, e])]);
      extra++;
    }
    if (this.zeroAttn) {
      const none = zeros([1, batch, e], { dtype: k.dtype });
      k = concat([k, none]);
      v = concat([v, none]);
      extra++;
    }
    const { heads } = this;
    const split = (t: Tensor): Tensor => t.reshape([t.shape[0] as number, batch * heads, e / heads]).transpose(0, 1);
    const keys = k.shape[0] as number;
    let scores = bmm(split(q).mul(Math.sqrt(heads / e)), split(k).transpose(1, 2));
    const mask = this.maskFor(attnMask, padding, [batch, length, keys - extra], extra, scores);
    if (mask !== undefined) scores = scores.reshape([batch, heads, length, keys]).add(mask).reshape(scores.shape);
    const weights = dropout(normalise(scores), this.dropout, this.training);
    const attended = bmm(weights, split(v)).transpose(0, 1).reshape([length, batch, e]);
    return [this.out_proj.forward(attended), weights.reshape([batch, heads, length, keys])];
  }

  /** What is added to the scores, in a shape that broadcasts to [batch, heads, queries, keys]. */
  private maskFor(
    attnMask: Tensor | undefined,
    padding: Tensor | undefined,
    [batch, queries, keys]: readonly [number, number, number],
    extra: number,
    like: Tensor,
  ): Tensor | undefined {
    let mask: Tensor | undefined;
    if (attnMask !== undefined) {
      const wanted = attnMask.rank === 2 ? [queries, keys] : [batch * this.heads, queries, keys];
      if (attnMask.shape.join() !== wanted.join())
        throw new ShapeError(
          `MultiheadAttention: The shape of the attnMask is [${attnMask.shape.join(', ')}], but should be [${wanted.join(', ')}]`,
        );
      const own = added(attnMask, like).pad([0, extra]);
      mask = attnMask.rank === 2 ? own : own.reshape([batch, this.heads, queries, keys + extra]);
    }
    if (padding === undefined) return mask;
    if (padding.shape.join() !== [batch, keys].join())
      throw new ShapeError(
        `MultiheadAttention: expecting keyPaddingMask shape of [${batch}, ${keys}], but got [${padding.shape.join(', ')}]`,
      );
    const own = added(padding, like)
      .pad([0, extra])
      .reshape([batch, 1, 1, keys + extra]);
    return mask === undefined ? own : mask.add(own);
  }
}
