/** @file Transformer layers: encoder, decoder, stacks of both, and the sinusoidal positions (Vaswani et al. 2017). */
import { checkShape } from '../shape.ts';
import { checkGivenOptions, kindOf } from '../given.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { full, zeros } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { rpcName } from '../named.ts';
import { gelu } from '../ops/activations.ts';
import { relu } from '../ops/unary.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import type { Tensor } from '../tensor.ts';
import { MultiheadAttention, type AttentionCall } from './attention.ts';
import { Dropout } from './dropout.ts';
import { Linear } from './linear.ts';
import { copyOf, Module } from './module.ts';
import { LayerNorm } from './norm.ts';
import { xavierUniform_ } from './initial.ts';

/** What a layer of a transformer is made with. */
export interface TransformerLayerOptions {
  /** @default 2048 */
  dimFeedforward?: number;
  /** @default 0.1 */
  dropout?: number;
  /** @default 'relu' */
  activation?: 'relu' | 'gelu' | ((x: Tensor) => Tensor);
  /** @default 1e-5 */
  layerNormEps?: number;
  /** [batch, sequence, channels] instead of [sequence, batch, channels]. @default false */
  batchFirst?: boolean;
  /** Normalises before attention and feed-forward instead of behind. @default false */
  normFirst?: boolean;
  /** @default true */
  bias?: boolean;
}

const OPTIONS = optionNames<TransformerLayerOptions>()(
  'dimFeedforward dropout activation layerNormEps batchFirst normFirst bias',
);

function activationOf(given: TransformerLayerOptions['activation'] = 'relu'): (x: Tensor) => Tensor {
  if (typeof given === 'function') return given;
  if (given === 'relu') return relu;
  if (given === 'gelu') return (x) => gelu(x);
  throw new RangeError(`activation should be relu/gelu, not ${String(given)}`);
}

/** What a mask says: [queries, keys], true or -Infinity where attention is forbidden. */
export interface EncoderMasks {
  srcMask?: Tensor | undefined;
  srcKeyPaddingMask?: Tensor | undefined;
  /** That `srcMask` is the causal one, which has to be given. @default false */
  isCausal?: boolean;
}

const ENCODER_MASKS = optionNames<EncoderMasks>()('srcMask srcKeyPaddingMask isCausal');

function attention(
  layer: MultiheadAttention,
  x: Tensor,
  memory: Tensor,
  mask: Tensor | undefined,
  padding: Tensor | undefined,
): Tensor {
  const call: AttentionCall = { attnMask: mask, keyPaddingMask: padding, needWeights: false };
  return layer.forward(x, memory, memory, call)[0];
}

/** Self-attention and a feed-forward network, each with a residual connection and a normalisation. */
export class TransformerEncoderLayer extends Module {
  static readonly [rpcName] = 'nn.TransformerEncoderLayer';
  readonly self_attn: MultiheadAttention;
  readonly linear1: Linear;
  readonly dropout: Dropout;
  readonly linear2: Linear;
  readonly norm1: LayerNorm;
  readonly norm2: LayerNorm;
  readonly dropout1: Dropout;
  readonly dropout2: Dropout;
  private readonly activation: (x: Tensor) => Tensor;
  private readonly normFirst: boolean;

  constructor(dModel: number, heads: number, options: TransformerLayerOptions = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.TransformerEncoderLayer');
    checkMade(new.target, [dModel, heads, options]);
    const { dimFeedforward = 2048, dropout = 0.1, layerNormEps: eps = 1e-5, batchFirst = false, bias = true } = options;
    this.self_attn = new MultiheadAttention(dModel, heads, { dropout, bias, batchFirst });
    this.linear1 = new Linear(dModel, dimFeedforward, { bias });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear(dimFeedforward, dModel, { bias });
    this.norm1 = new LayerNorm(dModel, { eps, bias });
    this.norm2 = new LayerNorm(dModel, { eps, bias });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.activation = activationOf(options.activation);
    this.normFirst = options.normFirst ?? false;
  }

  forward(src: Tensor, masks: EncoderMasks = {}): Tensor {
    checkGivenOptions('TransformerEncoderLayer.forward()', masks);
    checkOptionNames(masks, ENCODER_MASKS, 'TransformerEncoderLayer.forward()');
    checkTensors('TransformerEncoderLayer.forward', [src]);
    if (masks.isCausal === true && masks.srcMask === undefined)
      throw new ShapeError(
        'TransformerEncoderLayer: isCausal says that srcMask is causal, but there is none: nn.Transformer.generateSquareSubsequentMask(n) makes it',
      );
    const attend = (x: Tensor): Tensor =>
      this.dropout1.forward(attention(this.self_attn, x, x, masks.srcMask, masks.srcKeyPaddingMask));
    if (this.normFirst) {
      const x = src.add(attend(this.norm1.forward(src)));
      return x.add(this.feedForward(this.norm2.forward(x)));
    }
    const x = this.norm1.forward(src.add(attend(src)));
    return this.norm2.forward(x.add(this.feedForward(x)));
  }

  private feedForward(x: Tensor): Tensor {
    const inner = this.dropout.forward(this.activation(this.linear1.forward(x)));
    return this.dropout2.forward(this.linear2.forward(inner));
  }
}

/** Where a decoder may not look: masks of its own input and of the memory, [target, source] or for each key. */
export interface DecoderMasks {
  tgtMask?: Tensor | undefined;
  memoryMask?: Tensor | undefined;
  tgtKeyPaddingMask?: Tensor | undefined;
  memoryKeyPaddingMask?: Tensor | undefined;
}

const DECODER_MASKS = optionNames<DecoderMasks>()('tgtMask memoryMask tgtKeyPaddingMask memoryKeyPaddingMask');

/** Self-attention, attention to `memory`, and a feed-forward network. */
export class TransformerDecoderLayer extends Module {
  static readonly [rpcName] = 'nn.TransformerDecoderLayer';
  readonly self_attn: MultiheadAttention;
  readonly multihead_attn: MultiheadAttention;
  readonly linear1: Linear;
  readonly dropout: Dropout;
  readonly linear2: Linear;
  readonly norm1: LayerNorm;
  readonly norm2: LayerNorm;
  readonly norm3: LayerNorm;
  readonly dropout1: Dropout;
  readonly dropout2: Dropout;
  readonly dropout3: Dropout;
  private readonly activation: (x: Tensor) => Tensor;
  private readonly normFirst: boolean;

  constructor(dModel: number, heads: number, options: TransformerLayerOptions = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.TransformerDecoderLayer');
    checkMade(new.target, [dModel, heads, options]);
    const { dimFeedforward = 2048, dropout = 0.1, layerNormEps: eps = 1e-5, batchFirst = false, bias = true } = options;
    this.self_attn = new MultiheadAttention(dModel, heads, { dropout, bias, batchFirst });
    this.multihead_attn = new MultiheadAttention(dModel, heads, { dropout, bias, batchFirst });
    this.linear1 = new Linear(dModel, dimFeedforward, { bias });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear(dimFeedforward, dModel, { bias });
    this.norm1 = new LayerNorm(dModel, { eps, bias });
    this.norm2 = new LayerNorm(dModel, { eps, bias });
    this.norm3 = new LayerNorm(dModel, { eps, bias });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.dropout3 = new Dropout(dropout);
    this.activation = activationOf(options.activation);
    this.normFirst = options.normFirst ?? false;
  }

  forward(tgt: Tensor, memory: Tensor, masks: DecoderMasks = {}): Tensor {
    checkGivenOptions('TransformerDecoderLayer.forward()', masks);
    checkOptionNames(masks, DECODER_MASKS, 'TransformerDecoderLayer.forward()');
    checkTensors('TransformerDecoderLayer.forward', [tgt, memory]);
    const attend = (x: Tensor): Tensor =>
      this.dropout1.forward(attention(this.self_attn, x, x, masks.tgtMask, masks.tgtKeyPaddingMask));
    const recall = (x: Tensor): Tensor =>
      this.dropout2.forward(attention(this.multihead_attn, x, memory, masks.memoryMask, masks.memoryKeyPaddingMask));
    if (this.normFirst) {
      const x = tgt.add(attend(this.norm1.forward(tgt)));
      const y = x.add(recall(this.norm2.forward(x)));
      return y.add(this.feedForward(this.norm3.forward(y)));
    }
    const x = this.norm1.forward(tgt.add(attend(tgt)));
    const y = this.norm2.forward(x.add(recall(x)));
    return this.norm3.forward(y.add(this.feedForward(y)));
  }

  private feedForward(x: Tensor): Tensor {
    const inner = this.dropout.forward(this.activation(this.linear1.forward(x)));
    return this.dropout3.forward(this.linear2.forward(inner));
  }
}

/** Copies of a layer, one after the other. */
abstract class Stack<L extends Module> extends Module {
  protected readonly layers: readonly L[];
  protected readonly norm: LayerNorm | null;
  constructor(layer: L, count: number, norm: LayerNorm | null) {
    checkMade(new.target, [layer, count, norm]);
    if (!(layer instanceof Module))
      throw new TypeError(`nn.${new.target.name}: layer is a module, got ${kindOf(layer)}`);
    checkShape([count]);
    super();
    this.layers = Array.from({ length: count }, () => copyOf(layer));
    this.norm = norm;
  }
  protected ended(x: Tensor): Tensor {
    return this.norm === null ? x : this.norm.forward(x);
  }
}

const STACK_MASKS: ReadonlySet<string> = new Set(['mask', 'srcKeyPaddingMask']);

/**
 * `count` copies of an encoder layer, one after the other, and a normalisation where one is given. A copy is made of the layer's fields: a class of
 * your own has no `#private` ones.
 */
export class TransformerEncoder extends Stack<TransformerEncoderLayer> {
  static readonly [rpcName] = 'nn.TransformerEncoder';
  constructor(layer: TransformerEncoderLayer, count: number, norm: LayerNorm | null = null) {
    super(layer, count, norm);
  }
  forward(src: Tensor, masks: { mask?: Tensor | undefined; srcKeyPaddingMask?: Tensor | undefined } = {}): Tensor {
    checkGivenOptions('TransformerEncoder.forward()', masks);
    checkOptionNames(masks, STACK_MASKS, 'TransformerEncoder.forward()');
    const own = { srcMask: masks.mask, srcKeyPaddingMask: masks.srcKeyPaddingMask };
    return this.ended(this.layers.reduce((x, layer) => layer.forward(x, own), src));
  }
}

/**
 * `count` copies of a decoder layer, one after the other, and a normalisation where one is given. A copy is made of the layer's fields: a class of
 * your own has no `#private` ones.
 */
export class TransformerDecoder extends Stack<TransformerDecoderLayer> {
  static readonly [rpcName] = 'nn.TransformerDecoder';
  constructor(layer: TransformerDecoderLayer, count: number, norm: LayerNorm | null = null) {
    super(layer, count, norm);
  }
  forward(tgt: Tensor, memory: Tensor, masks: DecoderMasks = {}): Tensor {
    return this.ended(this.layers.reduce((x, layer) => layer.forward(x, memory, masks), tgt));
  }
}

/** What `Transformer` is made with. */
export interface TransformerOptions extends TransformerLayerOptions {
  /** @default 6 */
  numEncoderLayers?: number;
  /** @default 6 */
  numDecoderLayers?: number;
}

/** Where a transformer may not look: masks of the source, beside those of the decoder. */
export interface TransformerMasks extends DecoderMasks {
  srcMask?: Tensor | undefined;
  srcKeyPaddingMask?: Tensor | undefined;
}

/** An encoder and a decoder. */
export class Transformer extends Module {
  static readonly [rpcName] = 'nn.Transformer';
  readonly encoder: TransformerEncoder;
  readonly decoder: TransformerDecoder;

  constructor(dModel = 512, heads = 8, options: TransformerOptions = {}) {
    checkMade(new.target, [dModel, heads, options]);
    super();
    const { numEncoderLayers = 6, numDecoderLayers = 6, ...rest } = options;
    const norm = (): LayerNorm => new LayerNorm(dModel, { eps: rest.layerNormEps ?? 1e-5, bias: rest.bias ?? true });
    this.encoder = new TransformerEncoder(new TransformerEncoderLayer(dModel, heads, rest), numEncoderLayers, norm());
    this.decoder = new TransformerDecoder(new TransformerDecoderLayer(dModel, heads, rest), numDecoderLayers, norm());
    for (const p of this.parameters()) if (p.rank > 1) xavierUniform_(p);
  }

  /** -Infinity above the diagonal: each position sees those before it, and itself. */
  static generateSquareSubsequentMask(size: number): Tensor {
    return full([size, size], -Infinity).triu(1);
  }

  forward(src: Tensor, tgt: Tensor, masks: TransformerMasks = {}): Tensor {
    checkGivenOptions('Transformer.forward()', masks);
    checkTensors('Transformer.forward', [src, tgt]);
    const { srcMask, srcKeyPaddingMask, ...rest } = masks;
    return this.decoder.forward(tgt, this.encoder.forward(src, { mask: srcMask, srcKeyPaddingMask }), rest);
  }
}

const POSITIONAL: ReadonlySet<string> = new Set(['dropout', 'maxLen', 'batchFirst']);

/** Adds sines and cosines of the position, of wavelengths from 2π to 10,000 · 2π, to [sequence, batch, channels]. */
export class PositionalEncoding extends Module {
  static readonly [rpcName] = 'nn.PositionalEncoding';
  private readonly dropout: Dropout;
  private readonly table: Tensor;
  private readonly batchFirst: boolean;

  constructor(dModel: number, options: { dropout?: number; maxLen?: number; batchFirst?: boolean } = {}) {
    super();
    checkOptionNames(options, POSITIONAL, 'nn.PositionalEncoding');
    checkMade(new.target, [dModel, options]);
    const { dropout = 0.1, maxLen = 5000 } = options;
    this.dropout = new Dropout(dropout);
    this.batchFirst = options.batchFirst ?? false;
    this.table = this.registerBuffer('pe', positions(maxLen, dModel).unsqueeze(1));
  }

  forward(x: Tensor): Tensor {
    checkTensors('PositionalEncoding.forward', [x]);
    const length = x.shape[this.batchFirst ? 1 : 0] as number;
    if (length > (this.table.shape[0] as number))
      throw new RangeError(
        `a sequence of ${length} is longer than the ${this.table.shape[0] as number} positions of the encoding`,
      );
    const own = this.table.narrow(0, 0, length);
    return this.dropout.forward(x.add(this.batchFirst ? own.transpose(0, 1) : own));
  }
}

function positions(length: number, channels: number): Tensor {
  const table = zeros([length, channels]);
  const values = new Float32Array(
    table.storage.mutate().buffer as ArrayBuffer,
    table.storage.mutate().byteOffset,
    length * channels,
  );
  for (let d = 0; d < channels; d++) {
    const rate = Math.fround(Math.exp(Math.fround((d - (d % 2)) * Math.fround(-Math.log(10_000) / channels))));
    for (let t = 0; t < length; t++) {
      const angle = Math.fround(t * rate);
      values[t * channels + d] = d % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
    }
  }
  return table;
}
