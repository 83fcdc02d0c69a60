/** @file The public surface of @backwire/tensor. */
import './runtime-version.ts';
import './install.ts';

export { rpcName, type Named } from './named.ts';
export type { DType, TypedArrayOf, TypedArrays } from './dtype.ts';
export { promoteTypes } from './ops/promotion.ts';
export type { Device } from './device.ts';
export { Parameter, Tensor, type GradFn, type GradHook, type Nested } from './tensor.ts';
export { AutogradError, DisposedError, DTypeError, ShapeError, TensorError } from './errors.ts';
export {
  arange,
  empty,
  eye,
  fromBytes,
  full,
  fullLike,
  linspace,
  ones,
  onesLike,
  tensor,
  zeros,
  zerosLike,
  type CreateOptions,
} from './creation.ts';
export * from './ops/arithmetic.ts';
export * from './ops/unary.ts';
export { concat } from './ops/join.ts';
export { stack } from './ops/stack.ts';
export { addmm, bmm, dot, matmul, mm } from './ops/matmul.ts';
export { all, amax, amin, any, argMax, argMin, cumprod, cumsum, mean, prod, sum } from './ops/reduce.ts';
export { gather, indexAdd, indexCopy, indexSelect, oneHot, scatter, scatterAdd, takeAlongDim } from './ops/indexing.ts';
export { index, indexFill, indexPut, indexPut_, take } from './ops/subscript.ts';
export { scatterReduce } from './ops/scatter-reduce.ts';
export type {
  IndexItem,
  IndexPutOptions,
  Interpolation,
  Picked,
  ScatterReduction,
  Slice,
} from './arranging-methods.ts';
export type { Shape } from './shape.ts';
export * from './ops/arrange.ts';
export * from './ops/order.ts';
export * from './ops/bitwise.ts';
export * from './ops/addc.ts';
export { eigh, eigvalsh, logdet, qr, slogdet, svd, svdvals } from './ops/factor.ts';
export { einsum } from './ops/einsum.ts';
export { bernoulli, multinomial, randLike, randnLike } from './ops/sampling.ts';
export { manualSeed, rand, randint, randn, randperm } from './random.ts';
export { customFunction, type CustomFunction, type FunctionContext } from './autograd/custom-function.ts';
export { clamp, maskedFill, where } from './ops/where.ts';
export { sparseCooTensor } from './ops/sparse/coo.ts';
export { detectAnomaly } from './autograd/anomaly.ts';
export { enableGrad, isGradEnabled, noGrad } from './autograd/record.ts';
export { autocast, isAutocastEnabled, type AutocastOptions } from './autocast.ts';
export { GradScaler, type GradScalerOptions, type GradScalerState } from './optim/grad-scaler.ts';
export { checkpoint } from './autograd/backward/checkpoint.ts';
export { grad, runBackward, type BackwardOptions, type GradOptions } from './autograd/backward/engine.ts';
export { gradcheck, type GradcheckOptions } from './autograd/backward/gradcheck.ts';
export { fromTf, lift } from './interop.ts';
export type { TfTensor } from './backends/tfjs.ts';
export { memory } from './memory.ts';
export { setMemoryBudget } from './device-memory.ts';
export { deviceMemory, devices, openHostDevice } from './devices.ts';
export { findLeaks, type Leak, type LeakReport } from './leaks.ts';
export { loadSafetensors, saveSafetensors } from './safetensors.ts';
export { logSoftmax, logSumExp, softmax } from './ops/softmax.ts';
export {
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  crossEntropy,
  huberLoss,
  klDiv,
  l1Loss,
  mseLoss,
  nllLoss,
  smoothL1Loss,
  type ClassLossOptions,
  type CrossEntropyOptions,
  type KlDivOptions,
  type LossOptions,
  type Reduction,
} from './ops/losses.ts';
export * from './ops/margin-losses.ts';
export * from './ops/likelihood-losses.ts';
export * from './ops/composed-activations.ts';
export * from './ops/pixel-shuffle.ts';
export { instanceNorm, rmsNorm, type InstanceNormOptions } from './ops/normalisation.ts';
export {
  elu,
  gelu,
  hardSigmoid,
  hardSwish,
  hardtanh,
  leakyRelu,
  mish,
  prelu,
  relu6,
  selu,
  silu,
  softsign,
} from './ops/activations.ts';
export * from './ops/composite.ts';
export * from './ops/spread.ts';
export * from './ops/structure.ts';
export { cholesky, det, inverse, solve } from './ops/linalg.ts';
export { angle, complex, conj, imag, real } from './ops/complex-parts.ts';
export {
  adaptiveAvgPool2d,
  avgPool2d,
  conv1d,
  conv2d,
  convTranspose2d,
  maxPool2d,
  maxPool2dWithIndices,
  type AvgPoolOptions,
  type ConvOptions,
  type MaxPoolOptions,
  type PoolOptions,
  type TransposeOptions,
} from './ops/conv.ts';
export {
  adaptiveAvgPool1d,
  avgPool1d,
  conv3d,
  convTranspose1d,
  convTranspose3d,
  maxPool1d,
  type Conv3dOptions,
  type ConvTranspose1dOptions,
  type ConvTranspose3dOptions,
  type Triple,
} from './ops/conv-dims.ts';
export { interpolate, type InterpolateOptions, type InterpolationMode } from './ops/interpolate.ts';
export { keep, scope } from './scope.ts';
export { backendName, describeBackend, setBackend } from './backends/current.ts';
export { getNumThreads, setNumThreads } from './backends/threads.ts';

/** Bytes shared by the tensors that view them; freed when the last one goes. */
export interface Storage {
  readonly nbytes: number;
  /** Counts in-place changes. */
  readonly version: number;
}

export * as data from './data/index.ts';
export * as distributions from './distributions/index.ts';
export * as nn from './nn/index.ts';
export * as optim from './optim/index.ts';
export * as sparse from './ops/sparse/sum.ts';
