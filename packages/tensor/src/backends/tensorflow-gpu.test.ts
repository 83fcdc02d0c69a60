/** @file What native TensorFlow does on a GPU, on the processor: the same operations in the library's own memory. */
import { describe, expect, it } from 'vitest';
import { backendName } from '../index.ts';
import type { Backend, DeviceTensor } from './backend.ts';
import { currentDevice } from './current.ts';
import { NativeOps, type Binding } from './tf-native.ts';
import { TensorflowOnGpu } from './tensorflow.ts';
import { loadTfjsNode } from './tfjs-node.ts';

function open(): Backend {
  return new TensorflowOnGpu(
    new NativeOps((loadTfjsNode(true).tf.backend() as unknown as { binding: Binding }).binding),
  );
}

describe.runIf(backendName() === 'tensorflow' && currentDevice() === 'cpu')('native operations', () => {
  const on = (backend: Backend, values: readonly number[] | Float32Array, shape: readonly number[]): DeviceTensor => ({
    buffer: backend.upload(new Uint8Array(Float32Array.from(values).buffer), 'float32'),
    shape,
  });
  const read = (backend: Backend, { buffer }: Pick<DeviceTensor, 'buffer'>): number[] => [
    ...new Float32Array(Uint8Array.from(backend.download(buffer)).buffer),
  ];

  const A = [1, 2, 3, 4];
  const B = [2, 4, 8, 16];
  it.each<[string, readonly number[][], readonly number[]]>([
    ['Add', [A, B], [3, 6, 11, 20]],
    ['Sub', [A, B], [-1, -2, -5, -12]],
    ['Multiply', [A, B], [2, 8, 24, 64]],
    ['RealDiv', [A, B], [0.5, 0.5, 0.375, 0.25]],
    ['Neg', [[1, -2, 3, -4]], [-1, 2, -3, 4]],
    ['Abs', [[1, -2, 3, -4]], [1, 2, 3, 4]],
    ['Sqrt', [[1, 4, 9, 16]], [1, 2, 3, 4]],
    ['Square', [[1, -2, 3, 4]], [1, 4, 9, 16]],
    ['Relu', [[1, -2, 3, -4]], [1, 0, 3, 0]],
    ['Sigmoid', [[0, 0, 0, 0]], [0.5, 0.5, 0.5, 0.5]],
  ])('%s', (kernel, operands, expected) => {
    const backend = open();
    const inputs = Object.fromEntries(operands.map((values, i) => [`x${i}`, on(backend, values, [2, 2])]));
    const buffer = backend.run(kernel, inputs, {});
    expect(read(backend, { buffer })).toEqual(expected);
    for (const each of [buffer, ...Object.values(inputs).map((input) => input.buffer)]) backend.free(each);
  });

  it('multiply matrices whichever way they lie, add up along axes, and turn', () => {
    const backend = open();
    const [a, b] = [on(backend, [1, 2, 3, 4, 5, 6], [2, 3]), on(backend, [1, 0, 2, 0, 1, 3], [2, 3])];
    const product = (transposeA: boolean, transposeB: boolean): number[] =>
      read(backend, { buffer: backend.run('BatchMatMul', { a, b }, { transposeA, transposeB }) });
    expect(product(false, true)).toEqual([7, 11, 16, 23]);
    expect(product(true, false)).toEqual([1, 4, 14, 2, 5, 19, 3, 6, 24]);
    expect(read(backend, { buffer: backend.run('Sum', { x: a }, { axis: [1], keepDims: false }) })).toEqual([6, 15]);
    expect(read(backend, { buffer: backend.run('Transpose', { x: a }, { perm: [1, 0] }) })).toEqual([1, 4, 2, 5, 3, 6]);
  });

  it('read one buffer with two shapes at once', () => {
    const backend = open();
    const { buffer } = on(backend, [1, 2, 3, 4], [2, 2]);
    const column = { buffer, shape: [4, 1] };
    const row = { buffer, shape: [1, 4] };
    const outer = backend.run('Multiply', { a: column, b: row }, {});
    expect(read(backend, { buffer: outer })).toEqual([1, 2, 3, 4, 2, 4, 6, 8, 3, 6, 9, 12, 4, 8, 12, 16]);
    expect(read(backend, { buffer })).toEqual([1, 2, 3, 4]);
  });

  it('step a parameter in place, and leave the memory that it was made of alone', () => {
    const backend = open();
    const given = new Float32Array(64).fill(1);
    const target = { buffer: backend.upload(new Uint8Array(given.buffer), 'float32'), shape: [64] };
    const gradient = on(backend, new Float32Array(64).fill(2), [64]);
    const update = { kernel: 'ResourceApplyGradientDescent', scalars: [0.25], gradientAt: 1, penalty: 0, shrink: 1 };
    for (let i = 0; i < 3; i++) backend.update?.(update, [target], gradient);
    expect(new Set(read(backend, target))).toEqual(new Set([-0.5]));
    expect(new Set(given)).toEqual(new Set([1]));
  });
});
