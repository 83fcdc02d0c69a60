/** @file What is written by hand is what the schema says: the generated code reads it, and what it writes is read by hand. */
import { sparseCooTensor, tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { HeaderTable } from './gen/backwire/wire/v1/message.ts';
import { DType, Placement, TensorTable } from './gen/backwire/wire/v1/tensor.ts';
import { ElementType, Singleton } from './gen/backwire/wire/v1/value.ts';
import {
  ByteWriter,
  DEFAULT_WIRE_LIMITS,
  planTensors,
  readHeaderTable,
  readTensorTable,
  writeHeaderTable,
} from './internal.ts';
import { DTYPES } from './tensor/descriptor.ts';
import { writeTensorPlan } from './tensor/table.ts';
import { ELEMENT_TYPES, Singleton as OurSingleton } from './value/format.ts';

const snake = (name: string): string => name.replace(/(?!^)([A-Z][a-z])/g, '_$1').toUpperCase();

describe('tables written by hand', () => {
  it('are protobuf tensor tables', () => {
    const base = tensor(
      Float32Array.from({ length: 6 }, (_, i) => i),
      { shape: [2, 3] },
    );
    const sparse = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [300]);
    const grad = tensor([1, 2], { requiresGrad: true });
    const out = new ByteWriter();
    const { descriptorLength } = writeTensorPlan(
      out,
      planTensors([base, base.transpose(0, 1), base.narrow(0, 1, 1), sparse, grad]),
      DEFAULT_WIRE_LIMITS,
    );
    const bytes = out.written().subarray(0, descriptorLength);
    const table = TensorTable.decode(bytes);
    expect(table.storages.map(({ bytes: size, placement }) => [size, placement])).toEqual(
      [24, 16, 8, 8].map((size) => [size, Placement.INLINE]),
    );
    expect(
      table.tensors.map(({ dtype, shape, strides, offset, storage }) => ({ dtype, shape, strides, offset, storage })),
    ).toEqual([
      { dtype: DType.FLOAT32, shape: [2, 3], strides: [], offset: 0, storage: 0 },
      { dtype: DType.FLOAT32, shape: [3, 2], strides: [1, 3], offset: 0, storage: 0 },
      { dtype: DType.FLOAT32, shape: [1, 3], strides: [], offset: 3, storage: 0 },
      { dtype: DType.FLOAT32, shape: [300], strides: [], offset: 0, storage: 0 },
      { dtype: DType.FLOAT32, shape: [2], strides: [], offset: 0, storage: 3 },
    ]);
    expect(table.tensors[3]?.sparse).toMatchObject({
      indices: { dtype: DType.INT64, shape: [1, 2], storage: 1 },
      values: { shape: [2], storage: 2 },
      coalesced: false,
    });
    expect(table.tensors.map((t) => t.requiresGrad)).toEqual([false, false, false, false, true]);
    // And back: canonical lengths, fields in the schema's order.
    const canonical = TensorTable.encode(table).finish();
    expect(readTensorTable(canonical, 0, canonical.length)).toEqual(readTensorTable(bytes, 0, bytes.length));
  });

  it('are protobuf header tables', () => {
    const entries = [
      { extension: 'rref', data: Uint8Array.of(1, 2) },
      { extension: 'autograd', data: new Uint8Array(200) },
    ];
    const out = new ByteWriter();
    writeHeaderTable(out, entries);
    expect(HeaderTable.decode(out.written()).entries).toEqual(entries);
    expect(readHeaderTable(HeaderTable.encode({ entries }).finish())).toEqual(entries);
  });

  it('use the numbers of the schema', () => {
    expect(DTYPES.slice(1).map(([name]) => DType[name.toUpperCase() as keyof typeof DType])).toEqual(
      DTYPES.slice(1).map((_, i) => i + 1),
    );
    expect(Object.keys(DType).length).toBe(DTYPES.length);
    expect(
      ELEMENT_TYPES.map(
        ({ name }) => ElementType[snake(name.replace(/(?<=\d|Clamped)Array$/, '')) as keyof typeof ElementType],
      ),
    ).toEqual(ELEMENT_TYPES.map((_, i) => i));
    expect(Singleton).toMatchObject(OurSingleton);
  });
});
