/** @file Conversions by the names of dtypes in PyTorch, and to what another tensor is. */
import type { DType } from '../dtype.ts';
import type { Tensor } from '../tensor.ts';

/** Bodies of the methods of Tensor that have these names. */
export const conversions = {
  float: (t: Tensor): Tensor<'float32'> => t.to('float32'),
  double: (t: Tensor): Tensor<'float64'> => t.to('float64'),
  half: (t: Tensor): Tensor<'float16'> => t.to('float16'),
  bfloat16: (t: Tensor): Tensor<'bfloat16'> => t.to('bfloat16'),
  long: (t: Tensor): Tensor<'int64'> => t.to('int64'),
  int: (t: Tensor): Tensor<'int32'> => t.to('int32'),
  bool: (t: Tensor): Tensor<'bool'> => t.to('bool'),
  typeAs: (t: Tensor, other: Tensor): Tensor => t.to(other.dtype).to(other.device),
  expandAs: <D extends DType>(t: Tensor<D>, other: Tensor): Tensor<D> => t.expand(other.shape),
  viewAs: <D extends DType>(t: Tensor<D>, other: Tensor): Tensor<D> => t.view(other.shape),
  reshapeAs: <D extends DType>(t: Tensor<D>, other: Tensor): Tensor<D> => t.reshape(other.shape),
};
