/** @file The layers: `nn.Linear` and so on. */
export {
  AdaptiveAvgPool1d,
  AdaptiveAvgPool2d,
  AvgPool1d,
  AvgPool2d,
  Conv1d,
  Conv2d,
  Conv3d,
  ConvTranspose1d,
  ConvTranspose2d,
  ConvTranspose3d,
  MaxPool1d,
  MaxPool2d,
  type Conv1dOptions,
  type Conv2dOptions,
  type Conv3dLayerOptions,
  type ConvLayerOptions,
  type ConvTransposeOptions,
} from './conv.ts';
export { Embedding, type EmbeddingOptions } from './embedding.ts';
export { EmbeddingBag, type EmbeddingBagOptions } from './embedding-bag.ts';
export { Dropout, Dropout1d, Dropout2d, Dropout3d } from './dropout.ts';
export * from './padding.ts';
export { fromLayers, LayersModule, type LayersModelLike, type LayersWeight } from './from-layers.ts';
export { Upsample, UpsamplingBilinear2d, UpsamplingNearest2d } from './upsample.ts';
export { Linear } from './linear.ts';
export { GRU, LSTM, RNN, type LSTMOptions, type RecurrentOptions } from './recurrent.ts';
export { GRUCell, LSTMCell, RNNCell, type CellOptions } from './cells.ts';
export { MultiheadAttention, type AttentionCall, type AttentionOptions } from './attention.ts';
export {
  PositionalEncoding,
  Transformer,
  TransformerDecoder,
  TransformerDecoderLayer,
  TransformerEncoder,
  TransformerEncoderLayer,
  type DecoderMasks,
  type EncoderMasks,
  type TransformerLayerOptions,
  type TransformerMasks,
  type TransformerOptions,
} from './transformer.ts';
export { ModuleDict, ModuleList, ParameterDict, ParameterList } from './containers.ts';
export * from './activations.ts';
export * from './loss.ts';
export * as init from './initial.ts';
export * as utils from './utils.ts';
export { Module, type Callable, type StateDictMatch } from './module.ts';
export { Sequential, type AnyAsync, type LastOut } from './sequential.ts';
export {
  BatchNorm1d,
  BatchNorm2d,
  BatchNorm3d,
  GroupNorm,
  InstanceNorm1d,
  InstanceNorm2d,
  InstanceNorm3d,
  LayerNorm,
  RMSNorm,
  type BatchNormLayerOptions,
} from './norm.ts';
export type { GradBucket } from './buckets.ts';
export { DistributedDataParallel } from './parallel.ts';
export type { ProcessGroup } from './process-group.ts';
