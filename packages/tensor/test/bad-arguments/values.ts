/** @file Tensors that the valid calls of the test of bad arguments are made with. */
import * as bw from '../../src/index.ts';
import { data, ones, tensor, type Tensor } from '../../src/index.ts';

/** New arguments every time. */
export type Arguments = () => unknown[];

export const vector = (): Tensor => tensor([0.5, 0.25, 0.75]);
export const matrix = (): Tensor =>
  tensor([
    [0.5, 0.25, 0.75],
    [0.125, 0.625, 0.875],
  ]);
export const square = (): Tensor =>
  tensor([
    [2, 0.5],
    [0.5, 1],
  ]);
export const whole = (...values: number[]): Tensor => tensor(values, { dtype: 'int64' });
export const mask = (): Tensor => tensor([true, false, true]);
export const signs = (): Tensor => tensor([1, -1]);
export const coo = (): Tensor => bw.sparseCooTensor(tensor([[0n, 1n]]), tensor([1, 2]), [3]);
export const complex = (): Tensor => bw.complex(vector(), vector());
export const image = (...size: number[]): Tensor => ones([1, 2, ...size]);
export const weight = (...size: number[]): Tensor => ones([2, 2, ...size]);
export const parameter = (): Tensor => ones([2], { requiresGrad: true });

export const items = (): unknown => new data.TensorDataset(matrix(), numbers());
export const numbers = (): Tensor => tensor([1, 2]);
