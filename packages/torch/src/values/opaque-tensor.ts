/** @file Tensors of element types that are only handed on: stored, saved, sent back. */
import { noGrad, Parameter, Tensor } from '@backwire/tensor';
import { DISPOSE } from '@backwire/tensor/internal';
import { elementNamed, type TorchElement } from './dtypes.ts';

/** A tensor of a type that nothing here computes with: complex128, float8_e4m3fn … */
export class OpaqueTensor {
  /** 'complex128': the name after `torch.`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly requiresGrad: boolean;
  /** uint8 [...shape, bytes an element], over the same memory. */
  readonly bytes: Tensor<'uint8'>;

  /**
   * Takes over `bytes`, or a copy of them where they do not lie as elements of that type: expanded, out of step, or a part of an element at the end.
   * @throws TypeError for a type that torch does not have, bytes of another shape, and gradients of whole numbers.
   */
  constructor(dtype: string, bytes: Tensor<'uint8'>, requiresGrad = false) {
    const element = elementNamed(dtype);
    if (element === undefined) throw new TypeError(`torch has no type '${String(dtype)}' of elements`);
    // What is sent is trusted by torch: memory of another size than type and shape say ends its process, and so do gradients of integers.
    if (!isBytesOf(element, bytes))
      throw new TypeError(`${dtype} elements are given as a uint8 tensor with a last dimension of ${element.bytes}`);
    if (requiresGrad && !/^(?:b?float|complex)/.test(dtype))
      throw new TypeError(`only tensors of floating point and complex types can require gradients, not ${dtype}`);
    this.dtype = dtype;
    this.shape = bytes.shape.slice(0, -1);
    this.bytes = inStep(bytes, element.bytes) ? bytes : copied(bytes);
    this.requiresGrad = requiresGrad;
  }

  /** Frees its handle on the memory. Disposing twice is allowed. */
  dispose(): void {
    this.bytes.dispose();
  }

  [DISPOSE](): void {
    this.dispose();
  }
}

function isBytesOf(element: TorchElement, bytes: unknown): boolean {
  if (!(bytes instanceof Tensor) || bytes.sparse !== undefined) return false;
  return bytes.dtype === 'uint8' && bytes.shape.at(-1) === element.bytes;
}

/** Whether elements of `width` bytes lie in the memory of such a tensor as whole ones. */
function inStep({ shape, strides, offset, storage }: Tensor, width: number): boolean {
  const last = shape.length - 1;
  const steps = strides.slice(0, last);
  const whole = [offset, storage.nbytes, ...steps].every((count) => count % width === 0);
  return whole && (width === 1 || strides[last] === 1);
}

function copied(bytes: Tensor<'uint8'>): Tensor<'uint8'> {
  const copy = noGrad(() => bytes.clone());
  bytes.dispose();
  return copy;
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
