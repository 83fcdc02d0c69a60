/** @file Tensors of element types that are only handed on: stored, saved, sent back. */
import { Parameter, Tensor } from '@backwire/tensor';

/** A tensor of a type that nothing here computes with: complex128, float8_e4m3fn … */
export class OpaqueTensor {
  /** 'complex128': the name after `torch.`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly requiresGrad: boolean;
  /** uint8 [...shape, bytes an element], over the same memory. */
  readonly bytes: Tensor<'uint8'>;

  /** Takes over `bytes`. */
  constructor(dtype: string, bytes: Tensor<'uint8'>, requiresGrad = false) {
    this.dtype = dtype;
    this.shape = bytes.shape.slice(0, -1);
    this.bytes = bytes;
    this.requiresGrad = requiresGrad;
  }

  /** Frees its handle on the memory. Disposing twice is allowed. */
  dispose(): void {
    this.bytes.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A view of elements of `width` bytes as one of bytes, with a last dimension of that width. All but `width` in elements. */
export function bytewise(
  {
    shape,
    strides,
    offset,
  }: { readonly shape: readonly number[]; readonly strides: readonly number[]; readonly offset: number },
  width: number,
): { readonly dtype: 'uint8'; readonly shape: number[]; readonly strides: number[]; readonly offset: number } {
  return {
    dtype: 'uint8',
    shape: [...shape, width],
    strides: [...strides.map((stride) => stride * width), 1],
    offset: offset * width,
  };
}

/** What a tensor of torch becomes. */
export type TensorLike = Tensor | OpaqueTensor;

/** What a parameter holds, which travels as a tensor that requires no gradients beside the word that it is a parameter. */
export class ParameterData {
  readonly parameter: Parameter;

  constructor(parameter: Parameter) {
    this.parameter = parameter;
  }
}

/** Whether `value` is a tensor to compute with. */
export function isTensor(value: unknown): value is Tensor {
  return value instanceof Tensor;
}

export function isParameter(value: unknown): value is Parameter {
  return value instanceof Parameter;
}

/** What travels beside a pickle. */
export type TravellingTensor = TensorLike | ParameterData;
