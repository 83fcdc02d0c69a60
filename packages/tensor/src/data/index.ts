/** @file Feeding a model: data sets, the order of their samples, batches. */
export { defaultCollate, type Batch } from './collate.ts';
export { ConcatDataset, randomSplit, Subset, TensorDataset, type Dataset } from './dataset.ts';
export { DataLoader, type DataLoaderOptions, type SampleStream } from './loader.ts';
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
