/** @file The layers: `nn.Linear` and so on. */
export { Embedding, EmbeddingBag } from './embedding.ts';
export { Linear } from './linear.ts';
export { LSTM } from './lstm.ts';
export { Module, type Callable } from './module.ts';
export { Sequential, type AnyAsync, type LastOut } from './sequential.ts';
export { DistributedDataParallel, type GradBucket, type ProcessGroup } from './parallel.ts';
