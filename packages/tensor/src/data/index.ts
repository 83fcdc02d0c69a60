/** @file Feeding a model: data sets, the order of their samples, batches. */
export { defaultCollate, type Batch } from './collate.ts';
export { ConcatDataset, randomSplit, Subset, TensorDataset, type Dataset } from './dataset.ts';
export { DataLoader } from './loader.ts';
export type { DataLoaderOptions } from './loader-options.ts';
export type { SampleStream } from './sources.ts';
export { workerDataset, workerFunction } from './worker-dataset.ts';
export { getWorkerInfo, type WorkerInfo } from './worker-info.ts';
export { DataLoaderWorkerError } from './worker-threads.ts';
export {
  BatchSampler,
  DistributedSampler,
  RandomSampler,
  SequentialSampler,
  SubsetRandomSampler,
  WeightedRandomSampler,
  type DistributedSamplerOptions,
  type RandomSamplerOptions,
  type Sampler,
  type WeightedRandomSamplerOptions,
} from './samplers.ts';
