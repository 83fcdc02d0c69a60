import { type DType, Parameter, type Tensor, fromBytes, randn, sparseCooTensor, tensor, zeros } from '@backwire/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Descriptor,
  type Message,
  allocate,
  deserializeMessage,
  getDeviceTypeConverter,
  registerDeviceTypeConverter,
  serializeMessage,
  sparseRpcFormatToTensor,
  sparseTensorToRpcFormat,
} from '../index.ts';
import { DEFAULT_WIRE_LIMITS, bufferPool } from '../internal.ts';

const message = (tensors: readonly Tensor[], payload = Uint8Array.of(1, 2)): Message => ({
  type: 0x102,
  id: 9n,
  payload,
  tensors,
});

/** Through all three stages, with a copy for the wire. */
function travel(sent: Message, spoil: (storage: Uint8Array) => void = () => undefined): Message {
  const write = serializeMessage(sent);
  try {
    const allocation = allocate(write.descriptor);
    allocation.payload.set(write.buffers[0] as Uint8Array);
    allocation.storages.forEach((storage, i) => storage.set(write.buffers[i + 1] as Uint8Array));
    allocation.storages.forEach(spoil);
    return deserializeMessage(write.descriptor, allocation);
  } finally {
    write.release();
  }
}

/** Bytes that travel for the tensors of a message. */
function storageBytes(...tensors: Tensor[]): number[] {
  const write = serializeMessage(message(tensors));
  write.release();
  return [...write.descriptor.storageBytes];
}

describe('TensorpipeSerialize', () => {
  it('Base', () => {
    const payload = Uint8Array.from({ length: 130 }, (_, i) => i);
    const sent: Message = { type: 0x100, id: 100n, payload, tensors: [randn([100]), randn([50, 2])] };
    const { descriptor, buffers, release } = serializeMessage(sent);
    expect([descriptor.type, descriptor.id, descriptor.payloadBytes]).toEqual([0x100, 100n, 130]);
    expect(buffers.map((bytes) => bytes.length)).toEqual([130, ...descriptor.storageBytes]);
    release();
    const back = travel(sent);
    expect(back.payload).toEqual(payload);
    expect(back.tensors.map((t) => t.toArray())).toEqual(sent.tensors.map((t) => t.toArray()));
  });
  it('RecopySparseTensors', () => {
    const main = randn([1024, 1024]);
    const tiny = main.select(0, 2);
    const { descriptor, release } = serializeMessage(message([main, tiny]));
    release();
    expect(descriptor.storageBytes).toEqual([4 << 20, 4096]);
    const [all, row] = travel(message([main, tiny])).tensors as [Tensor, Tensor];
    expect(all.equal(main)).toBe(true);
    expect(row.equal(tiny)).toBe(true);
  });
  it('NoDeleterTensors', () => {
    const mine = Float32Array.from({ length: 16 }, (_, i) => i);
    const t = fromBytes(new Uint8Array(mine.buffer), [16], 'float32');
    const { buffers, release } = serializeMessage(message([t]));
    expect(buffers[1]?.buffer).not.toBe(mine.buffer);
    mine.fill(0);
    expect([...new Float32Array((buffers[1] as Uint8Array).slice().buffer)]).toEqual(
      Array.from({ length: 16 }, (_, i) => i),
    );
    release();
  });
});

describe('the three stages of a message', () => {
  it('give the message back', () => {
    const back = travel(
      message([
        tensor([1, 2, 3]),
        tensor(
          [
            [1, 2],
            [3, 4],
          ],
          { dtype: 'float64' },
        ),
      ]),
    );
    expect([back.type, back.id, [...back.payload]]).toEqual([0x102, 9n, [1, 2]]);
    expect(back.tensors.map((t) => [t.dtype, t.shape, t.toArray()])).toEqual([
      ['float32', [3], [1, 2, 3]],
      [
        'float64',
        [2, 2],
        [
          [1, 2],
          [3, 4],
        ],
      ],
    ]);
  });

  const dtypes: DType[] = [
    'float32',
    'float64',
    'float16',
    'bfloat16',
    'int64',
    'int32',
    'int16',
    'int8',
    'uint8',
    'bool',
    'complex64',
  ];
  it.each(dtypes)('keep every bit of %s', (dtype) => {
    const width = {
      float64: 8,
      int64: 8,
      complex64: 8,
      float32: 4,
      int32: 4,
      float16: 2,
      bfloat16: 2,
      int16: 2,
      int8: 1,
      uint8: 1,
      bool: 1,
    }[dtype];
    const bytes = Uint8Array.from({ length: width * 4 }, (_, i) => (dtype === 'bool' ? i % 2 : (i * 37 + 1) % 120));
    const [back] = travel(message([fromBytes(bytes, [2, 2], dtype)])).tensors as [Tensor];
    expect([back.dtype, back.shape]).toEqual([dtype, [2, 2]]);
    const { buffer, byteOffset, byteLength } = back.dataSync();
    expect(new Uint8Array(buffer, byteOffset, byteLength)).toEqual(bytes);
  });

  it('read no other bytes than 0 and 1 as bool', () => {
    const sent = message([fromBytes(Uint8Array.of(1, 0, 1), [3], 'bool')]);
    const [back] = travel(sent, (storage) => void (storage[0] = 255)).tensors as [Tensor];
    expect([...back.dataSync()]).toEqual([1, 0, 1]);
  });

  it('keep scalars, empty tensors and large ones', () => {
    const [scalar, empty, large] = travel(message([tensor(5), zeros([0, 3]), zeros([300, 100])])).tensors as [
      Tensor,
      Tensor,
      Tensor,
    ];
    expect([scalar.shape, scalar.item()]).toEqual([[], 5]);
    expect([empty.shape, empty.size]).toEqual([[0, 3], 0]);
    expect([large.shape, large.sum().item()]).toEqual([[300, 100], 0]);
  });

  it('keep views without elements, wherever those begin', () => {
    const [found] = travel(message([zeros([2, 0]).slice(0, 1)])).tensors as [Tensor];
    expect([found.shape, found.offset]).toEqual([[1, 0], 0]);
  });

  it('keep strides, offsets and what shares memory with what', () => {
    const base = tensor(
      Float32Array.from({ length: 12 }, (_, i) => i),
      { shape: [3, 4] },
    );
    const sent = [base, base.transpose(0, 1), base.narrow(0, 1, 2), base];
    expect(storageBytes(...sent)).toEqual([48]);
    const [a, t, n] = travel(message(sent)).tensors as [Tensor, Tensor, Tensor];
    expect([t.strides, n.offset]).toEqual([[1, 4], 4]);
    expect(t.toArray()).toEqual(base.transpose(0, 1).toArray());
    a.zero_();
    expect([t.sum().item(), n.sum().item()]).toEqual([0, 0]);
  });

  it('keep requiresGrad, parameters, and no graph', () => {
    const leaf = tensor([1, 2], { requiresGrad: true });
    const [a, p, c] = travel(message([leaf, new Parameter(tensor([3])), leaf.mul(2)])).tensors as [
      Tensor,
      Tensor,
      Tensor,
    ];
    expect([a.requiresGrad, a.isLeaf, p.requiresGrad, c.requiresGrad, c.isLeaf]).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
    expect([p instanceof Parameter, a instanceof Parameter]).toEqual([true, false]);
  });

  it('keep sparse tensors, coalesced or not', () => {
    const sparse = sparseCooTensor(
      tensor(
        [
          [0, 2, 2],
          [1, 0, 0],
        ],
        { dtype: 'int64' },
      ),
      tensor([1, 2, 3]),
      [3, 2],
    );
    const [raw, tidy] = travel(message([sparse, sparse.coalesce()])).tensors as [Tensor, Tensor];
    expect([raw.layout, raw.isCoalesced, tidy.isCoalesced]).toEqual(['sparse_coo', false, true]);
    expect(raw.toDense().toArray()).toEqual(sparse.toDense().toArray());
    expect(tidy.values().toArray()).toEqual([1, 5]);
    const [hybrid] = travel(message([sparseCooTensor(tensor([[1]], { dtype: 'int64' }), tensor([[5, 6]]), [3, 2])]))
      .tensors as [Tensor];
    expect(hybrid.toDense().toArray()).toEqual([
      [0, 0],
      [5, 6],
      [0, 0],
    ]);
  });

  it('let the tensors be disposed and changed right after the first stage', () => {
    const t = tensor([1, 2, 3]);
    const write = serializeMessage(message([t]));
    t.add_(10);
    t.dispose();
    expect([...new Float32Array((write.buffers[1] as Uint8Array).slice().buffer)]).toEqual([1, 2, 3]);
    write.release();
    write.release();
  });
});

describe('the re-copy rule', () => {
  const floats = (count: number): Tensor => zeros([count]);
  it('copies a view that needs at most half of a storage of 8 KiB or more', () => {
    expect(storageBytes(floats(1 << 20).narrow(0, 0, 10))).toEqual([40]);
    expect(storageBytes(floats(1 << 20).narrow(0, 0, 1 << 19))).toEqual([1 << 21]);
  });
  it('sends the whole storage otherwise', () => {
    expect(storageBytes(floats(1 << 20).narrow(0, 0, 600_000))).toEqual([1 << 22]);
    expect(storageBytes(floats(1500).narrow(0, 0, 10))).toEqual([6000]);
  });
  it('keeps the values of a copied view, whatever its strides', () => {
    const base = tensor(
      Float32Array.from({ length: 4096 }, (_, i) => i),
      { shape: [64, 64] },
    );
    const view = base.select(1, 3);
    const [back] = travel(message([view])).tensors as [Tensor];
    expect(back.toArray()).toEqual(view.toArray());
    expect(back.strides).toEqual([1]);
    expect(view.requiresGrad).toBe(false);
  });
  it('keeps the values of a view that lies in one piece, without copying it', () => {
    const base = tensor(Float32Array.from({ length: 4096 }, (_, i) => i));
    const view = base.narrow(0, 100, 50);
    const write = serializeMessage(message([view, view]));
    expect(write.descriptor.storageBytes).toEqual([200, 200]);
    expect(write.descriptor.tensors.map((t) => [t.offset, t.storage])).toEqual([
      [0, 0],
      [0, 1],
    ]);
    base.add_(1);
    expect([...new Float32Array((write.buffers[1] as Uint8Array).slice().buffer)].slice(0, 2)).toEqual([100, 101]);
    write.release();
    expect(travel(message([view])).tensors[0]?.toArray()).toEqual(view.toArray());
  });
  it('copies memory that the program holds an alias of', () => {
    const mine = new Uint8Array(Float32Array.of(1, 2).buffer);
    const t = fromBytes(mine, [2], 'float32');
    const alias = t.dataSync();
    const write = serializeMessage(message([t]));
    alias.fill(7);
    mine.fill(9);
    expect([...new Float32Array((write.buffers[1] as Uint8Array).slice().buffer)]).toEqual([1, 2]);
    write.release();
  });
});

describe('the receiver', () => {
  const base: Descriptor = {
    type: 0x102,
    id: 1n,
    payloadBytes: 0,
    storageBytes: [64],
    tensors: [
      { dtype: 'float32', shape: [4, 4], strides: [4, 1], offset: 0, storage: 0, requiresGrad: false, device: 'cpu' },
    ],
  };
  const tensorWith = (change: object): Descriptor => ({
    ...base,
    tensors: [{ ...(base.tensors[0] as object), ...change } as never],
  });
  const bad: [string, Descriptor, RegExp][] = [
    ['a view past its storage', tensorWith({ offset: 1 }), /reaches element 16/],
    ['strides past its storage', tensorWith({ strides: [5, 1] }), /reaches element/],
    ['a negative stride', tensorWith({ strides: [-4, 1], offset: 15 }), /decode-error/],
    ['a fractional offset', tensorWith({ offset: 0.5 }), /decode-error/],
    ['a NaN dimension', tensorWith({ shape: [NaN, 4] }), /decode-error/],
    ['another number of strides', tensorWith({ strides: [1] }), /number of strides/],
    ['a storage that is not there', tensorWith({ storage: 1 }), /storage 1 of 1/],
    ['an unknown dtype', tensorWith({ dtype: 'float128' }), /unknown dtype/],
    ['a dtype of Object.prototype', tensorWith({ dtype: 'constructor' }), /unknown dtype/],
    ['a negative size', { ...base, storageBytes: [-1] }, /no size/],
    ['a storage over the limit', { ...base, storageBytes: [2 ** 40] }, /limit: storage/],
    [
      'storages that are together over the limit',
      { ...base, storageBytes: Array.from({ length: 3 }, () => 2 ** 30) },
      /limit: message/,
    ],
    [
      'zero strides that would fill the memory',
      tensorWith({ shape: [2 ** 20, 2 ** 20], strides: [0, 0] }),
      /limit: tensors written out/,
    ],
    ['a size past 2^53', tensorWith({ shape: [2 ** 30, 2 ** 30], strides: [0, 0] }), /2\^53/],
    [
      'a size past 2^53 hidden behind a zero',
      tensorWith({ shape: [0, 2 ** 30, 2 ** 30], strides: [0, 0, 0] }),
      /2\^53/,
    ],
    [
      '65 dimensions',
      tensorWith({ shape: new Array<number>(65).fill(1), strides: new Array<number>(65).fill(1) }),
      /limit: rank/,
    ],
  ];
  it.each(bad)('refuses %s before it takes memory', (_name, descriptor, error) => {
    const before = bufferPool.stats();
    expect(() => allocate(descriptor)).toThrow(error);
    expect(bufferPool.stats()).toEqual(before);
  });

  it('refuses sparse indices outside the shape once they are there, and leaves the memory to its owner', () => {
    const indices = {
      dtype: 'int64',
      shape: [1, 2],
      strides: [2, 1],
      offset: 0,
      storage: 0,
      requiresGrad: false,
      device: 'cpu',
    } as const;
    const values = { ...indices, dtype: 'float32', shape: [2], strides: [1], storage: 1 };
    const sparse = { ...values, shape: [4], storage: -1, sparse: { indices, values, coalesced: false } };
    const descriptor: Descriptor = { ...base, storageBytes: [16, 8], tensors: [sparse] };
    for (const wrong of [4n, -1n, 2n ** 32n, 2n ** 63n - 1n]) {
      const allocation = allocate(descriptor);
      allocation.storages[0]?.set(new Uint8Array(BigInt64Array.of(0n, wrong).buffer));
      expect(() => deserializeMessage(descriptor, allocation)).toThrow(
        'a sparse index is outside dimension 0 of size 4',
      );
      allocation.release();
    }
    const allocation = allocate(descriptor);
    allocation.storages[0]?.set(new Uint8Array(BigInt64Array.of(3n, 0n).buffer));
    allocation.storages[1]?.set(new Uint8Array(Float32Array.of(5, 6).buffer));
    expect(deserializeMessage(descriptor, allocation).tensors[0]?.toDense().toArray()).toEqual([6, 0, 0, 5]);
  });

  it('refuses an allocation of another message', () => {
    const allocation = allocate({ ...base, storageBytes: [128] });
    expect(() => deserializeMessage(base, allocation)).toThrow('another size');
    allocation.release();
    allocation.release();
  });

  it('makes tensors of an allocation once', () => {
    const allocation = allocate(base);
    deserializeMessage(base, allocation);
    expect(() => deserializeMessage(base, allocation)).toThrow('used twice');
  });

  it('reuses the memory of tensors that are gone, and never of those an alias was handed out of', () => {
    const nbytes = 3 << 20;
    const descriptor: Descriptor = {
      ...base,
      storageBytes: [nbytes],
      tensors: [{ ...(base.tensors[0] as object), shape: [nbytes / 4], strides: [1] } as never],
    };
    bufferPool.trim(0);
    const receive = (): [Uint8Array, Tensor] => {
      const allocation = allocate(descriptor);
      return [allocation.storages[0] as Uint8Array, deserializeMessage(descriptor, allocation).tensors[0] as Tensor];
    };
    const [first, t1] = receive();
    const view = t1.narrow(0, 0, 10);
    t1.dispose();
    expect(bufferPool.stats().freeBytes).toBe(0);
    view.dispose();
    expect(bufferPool.stats().freeBytes).toBe(nbytes);
    const [second, t2] = receive();
    expect(second.buffer).toBe(first.buffer);
    t2.dataSync();
    t2.dispose();
    expect(bufferPool.stats().freeBytes).toBe(0);
  });

  it('has a limit on what one message may be, which its sender respects too', () => {
    expect(DEFAULT_WIRE_LIMITS.maxTensors).toBe(65_535);
    const one = tensor(1);
    expect(() => allocate({ ...base, tensors: new Array(65_536).fill(base.tensors[0]) as never })).toThrow(
      'limit: tensors',
    );
    one.dispose();
  });
});

describe('device type converters', () => {
  afterEach(() => bufferPool.trim(0));
  it('are for a type of device, and have both methods', () => {
    const converter = {
      prepareTensorForSending: () => ({ bytes: new Uint8Array(0), release: () => undefined }),
      allocateTensorForReceiving: (nbytes: number) => new Uint8Array(nbytes),
    };
    for (const type of ['', 'cpu', 'gpu:0', 'GPU', 5, undefined])
      expect(() => registerDeviceTypeConverter(type as never, converter)).toThrow(
        'a converter is for a type of device',
      );
    for (const none of [null, undefined, {}, { ...converter, prepareTensorForSending: 1 }])
      expect(() => registerDeviceTypeConverter('gpu', none as never)).toThrow('has a method prepareTensorForSending()');
    const half = { prepareTensorForSending: converter.prepareTensorForSending } as never;
    expect(() => registerDeviceTypeConverter('gpu', half)).toThrow('has a method allocateTensorForReceiving()');
  });

  it('make the memory for tensors of their type of device', () => {
    const asked: [number, string][] = [];
    registerDeviceTypeConverter('gpu', {
      prepareTensorForSending: () => ({ bytes: new Uint8Array(0), release: () => undefined }),
      allocateTensorForReceiving(nbytes, device) {
        asked.push([nbytes, device]);
        return new Uint8Array(nbytes);
      },
    });
    expect(getDeviceTypeConverter('gpu')).toBeDefined();
    expect(getDeviceTypeConverter('tpu')).toBeUndefined();
    const descriptor = {
      shape: [4],
      strides: [1],
      dtype: 'float32',
      offset: 0,
      storage: 0,
      requiresGrad: false,
      device: 'gpu:1',
    } as const;
    allocate({ type: 1, id: 0n, payloadBytes: 0, storageBytes: [16], tensors: [descriptor] }).release();
    expect(asked).toEqual([[16, 'gpu:1']]);
  });
});

describe('sparse tensors in parts', () => {
  it('come apart and together', () => {
    const sparse = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
    const parts = sparseTensorToRpcFormat(sparse);
    expect([parts[0].toArray(), parts[1].toArray(), parts[2]]).toEqual([[[0n, 2n]], [1, 2], [4]]);
    expect(sparseRpcFormatToTensor(parts).toDense().toArray()).toEqual([1, 0, 2, 0]);
    expect(() => sparseTensorToRpcFormat(tensor([1]))).toThrow('needs a sparse tensor');
  });

  const indices = tensor([[2, 2, 0]], { dtype: 'int64' });
  it('have one entry an index, in order, and leave the tensor as it was', () => {
    const raw = sparseCooTensor(indices, tensor([1, 3, 5]), [4]);
    const [rows, values, shape] = sparseTensorToRpcFormat(raw);
    expect([rows.toArray(), values.toArray(), shape]).toEqual([[[0n, 2n]], [5, 4], [4]]);
    expect(raw.isCoalesced).toBe(false);
    // Of a hybrid tensor the entries are rows.
    const hybrid = sparseCooTensor(tensor([[1, 1]], { dtype: 'int64' }), tensor([[1, 2], [3, 4]]), [2, 2]); // prettier-ignore
    expect(sparseTensorToRpcFormat(hybrid)[1].toArray()).toEqual([[4, 6]]);
  });

  it('make a coalesced tensor, whoever took it apart', () => {
    const whole = sparseRpcFormatToTensor([indices, tensor([1, 3, 5]), [4]]);
    expect([whole.isCoalesced, whole.indices().toArray(), whole.values().toArray()]).toEqual([
      true,
      [[0n, 2n]],
      [5, 4],
    ]);
    const none = sparseRpcFormatToTensor([zeros([1, 0], { dtype: 'int64' }), zeros([0]), [4]]);
    expect([none.isCoalesced, none.values().shape]).toEqual([true, [0]]);
  });

  it('that are none are refused in words', () => {
    for (const given of [null, undefined, 5, [], tensor([1])])
      expect(() => sparseTensorToRpcFormat(given as never)).toThrow('sparseTensorToRpcFormat needs a sparse tensor');
    for (const given of [null, 5, [], [indices], [indices, tensor([1, 3, 5])], [indices, tensor([1, 3, 5]), 4]])
      expect(() => sparseRpcFormatToTensor(given as never)).toThrow(
        'sparseRpcFormatToTensor takes [indices, values, shape]: two tensors and a list of sizes',
      );
  });

  it('carry gradients to the values on both ways', () => {
    const values = tensor([1, 3, 5], { requiresGrad: true });
    const [rows, sent, shape] = sparseTensorToRpcFormat(sparseCooTensor(indices, values, [4]));
    const back = sparseRpcFormatToTensor([rows, sent, shape]);
    back
      .toDense()
      .mul(tensor([1, 1, 10, 1]))
      .sum()
      .backward();
    expect(values.grad?.toArray()).toEqual([10, 10, 1]);
  });
});
