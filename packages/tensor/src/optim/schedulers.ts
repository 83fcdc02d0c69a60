/** @file The learning-rate schedulers: `optim.lrScheduler.StepLR` and so on. */
export {
  ConstantLR,
  CosineAnnealingLR,
  CosineAnnealingWarmRestarts,
  ExponentialLR,
  LambdaLR,
  LinearLR,
  LRScheduler,
  MultiplicativeLR,
  MultiStepLR,
  PolynomialLR,
  StepLR,
  type Factors,
} from './lr-scheduler.ts';
export { CyclicLR, OneCycleLR, type CyclicOptions, type OneCycleOptions } from './cycles.ts';
export { ChainedScheduler, ReduceLROnPlateau, SequentialLR, type PlateauOptions } from './lr-plans.ts';
export { type Scheduled, type ScheduledGroup } from './scheduled.ts';
