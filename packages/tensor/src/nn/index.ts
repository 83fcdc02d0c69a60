/** @file The layers: `nn.Linear` and so on. */
export { AdaptiveAvgPool2d, AvgPool2d, Conv2d, MaxPool2d, type Conv2dOptions } from './conv.ts';
export { Embedding, EmbeddingBag } from './embedding.ts';
export { Dropout, Flatten, GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh } from './layers.ts';
export { fromLayers, LayersModule, type LayersModelLike, type LayersWeight } from './from-layers.ts';
export { Linear } from './linear.ts';
export { LSTM } from './lstm.ts';
export { Module, type Callable, type StateDictMatch } from './module.ts';
export { Sequential, type AnyAsync, type LastOut } from './sequential.ts';
export { BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm } from './norm.ts';
export { DistributedDataParallel, type GradBucket, type ProcessGroup } from './parallel.ts';
