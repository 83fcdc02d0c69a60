/** @file Tensor tables: any tensors are read as they were written, over the same storages; nothing reaches beyond them. */
import { Parameter, Tensor, conj, manualSeed, randint, randn, sparseCooTensor, tensor, zeros } from '@backwire/tensor';
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { Describer } from '../../test/describe.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { elementNamed, torchElements } from '../values/dtypes.ts';
import { tensorOverBytes } from '../values/numpy.ts';
import { OpaqueTensor, ParameterData, type TensorLike, type TravellingTensor } from '../values/opaque-tensor.ts';
import { buildEntries } from './build.ts';
import { readTable } from './entries.ts';
import { writeTable } from './write.ts';

/** Sends tensors through a table. */
function through(tensors: readonly TravellingTensor[]): TensorLike[] {
  const table = writeTable(tensors);
  const storages = table.storages.map((storage) => storage.slice());
  const bytes = table.bytes.slice();
  table.release();
  const sizes = storages.map(({ length }) => length);
  return buildEntries(readTable(bytes, sizes), storages);
}
const text = (tensors: readonly TensorLike[]): string => new Describer().items(tensors);

describe('tensors', () => {
  it('of any shape, view and type arrive as they were', () => {
    const random = new Random('tables');
    manualSeed(7);
    for (let round = 0; round < 300; round++) {
      const shape = Array.from({ length: random.int(0, 4) }, () => random.int(0, 5));
      const base = random.chance(0.3) ? randint(-5, 5, shape) : randn(shape, { requiresGrad: random.chance(0.3) });
      const views = [base];
      for (let i = random.int(0, 4); i > 0; i--) {
        const from = random.pick(views);
        const dims = from.shape.map((_, d) => d);
        const dim = dims.find((d) => (from.shape[d] as number) > 1);
        if (from.rank > 1 && random.chance(0.4)) views.push(from.transpose(0, from.rank - 1).detach());
        else if (dim !== undefined && random.chance(0.5)) views.push(from.slice(dim, 1, from.shape[dim]).detach());
        else if (random.chance(0.5))
          views.push(
            from
              .detach()
              .reshape([1, ...from.shape])
              .expand([3, ...from.shape]),
          );
        else views.push(random.pick(views));
      }
      expect(text(through(views)), `round ${round}`).toBe(text(views));
    }
  });

  it('of all types of torch do, those that nothing computes with, too', () => {
    const all = torchElements.map((element, i) => {
      const bytes = Uint8Array.from({ length: element.bytes * 6 }, (_, k) =>
        element.dtype === 'bool' ? k % 2 : i + k,
      );
      return tensorOverBytes(element, bytes, [2, 3], [1, 2]);
    });
    expect(text(through(all))).toBe(text(all));
    expect(
      through(all)
        .filter((t) => t instanceof OpaqueTensor)
        .map(({ dtype }) => dtype),
    ).toEqual(torchElements.filter(({ dtype }) => dtype === undefined).map(({ name }) => name));
  });

  it('of one storage share one on the other side, and the same tensor is the same', () => {
    const base = zeros([4]);
    const [a, b, c] = through([base, base.slice(0, 2), base]) as [Tensor, Tensor, Tensor];
    expect(b.storage).toBe(a.storage);
    expect(c.storage).toBe(a.storage);
    a.fill_(3);
    expect(b.toArray()).toEqual([3, 3]);
  });

  it.each([
    [2_047, 1, 'whole'],
    [2_048, 1_024, 'copy'],
    [2_048, 1_025, 'whole'],
    [100_000, 3, 'copy'],
  ] as const)('of a storage of %i floats, a view of %i travels as a %s', (size, part, how) => {
    const table = writeTable([zeros([size]).slice(0, 0, part)]);
    expect(table.storages.map(({ length }) => length)).toEqual([4 * (how === 'copy' ? part : size)]);
    table.release();
  });

  it('of two types over one storage get a storage each: torch ends itself over one', () => {
    const floats = tensor([1, 2]);
    const { storage } = floats;
    const ints = new Tensor({ storage, dtype: 'int32', shape: [2], strides: [1], offset: 0 });
    const opaque = new OpaqueTensor(
      'uint32',
      new Tensor({ storage, dtype: 'uint8', shape: [2, 4], strides: [4, 1], offset: 0 }),
    );
    const table = writeTable([floats, ints, floats, opaque]);
    expect(table.storages).toHaveLength(3);
    table.release();
    const [a, b, c, d] = through([floats, ints, floats, opaque]) as [Tensor, Tensor, Tensor, OpaqueTensor];
    expect([a.toArray(), b.toArray(), c.toArray()]).toEqual([
      [1, 2],
      [0x3f800000, 0x40000000],
      [1, 2],
    ]);
    expect(c.storage).toBe(a.storage);
    expect(d.dtype).toBe('uint32');
    expect(d.bytes.storage).not.toBe(a.storage);
  });

  it('whose bytes do not lie as whole elements are copied: torch ends itself, or reads others', () => {
    const { storage } = tensor<'uint8'>(
      Uint8Array.from({ length: 33 }, (_, i) => i),
      { dtype: 'uint8' },
    );
    const at = (shape: number[], strides: number[], offset: number): Tensor<'uint8'> =>
      new Tensor({ storage, dtype: 'uint8', shape, strides, offset });
    const views = [at([2, 8], [8, 1], 1), at([3, 8], [1, 1], 0), at([2, 8], [8, 0], 8), at([1, 8], [8, 2], 0)];
    const expected = views.map((view) => view.toArray());
    const found = through(views.map((view) => new OpaqueTensor('uint64', view))) as OpaqueTensor[];
    expect(found.map(({ bytes }) => bytes.toArray())).toEqual(expected);
  });

  it.each([
    ['uint64', [4, 1], false, /last dimension of 8/],
    ['uint64', [], false, /last dimension of 8/],
    ['uint64', [1, 8], true, /can require gradients, not uint64/],
    ['uint128', [1, 16], false, /no type 'uint128'/],
  ] as const)('are refused as %s of bytes %o', (dtype, shape, requiresGrad, text) => {
    const bytes = zeros([...shape], { dtype: 'uint8' });
    expect(() => new OpaqueTensor(dtype, bytes, requiresGrad)).toThrow(text);
  });

  it('of floats are refused as bytes', () => {
    expect(() => new OpaqueTensor('uint64', zeros([1, 8]) as never)).toThrow(TypeError);
  });

  it('that require gradients do so there, the data of parameters do not', () => {
    const leaf = tensor([1], { requiresGrad: true });
    const found = through([leaf, new ParameterData(new Parameter(tensor([2]))), new Parameter(tensor([3]))]);
    expect(found.map((t) => t.requiresGrad)).toEqual([true, false, true]);
  });

  it('that are sparse arrive with their parts, uncoalesced', () => {
    const sparse = sparseCooTensor(
      tensor(
        [
          [0, 2],
          [1, 1],
        ],
        { dtype: 'int64' },
      ),
      tensor([
        [1, 2],
        [3, 4],
      ]),
      [3, 2, 2],
    );
    const [found] = through([sparse]) as [Tensor];
    expect(found.toDense().toArray()).toEqual(sparse.toDense().toArray());
    expect(found.sparse?.coalesced).toBe(false);
  });

  it('may be changed and disposed once the table is written', () => {
    const t = tensor([1, 2]);
    const table = writeTable([t]);
    t.fill_(9);
    t.dispose();
    expect(new Float32Array(table.storages[0]!.slice().buffer)).toEqual(Float32Array.of(1, 2));
    table.release();
  });

  it('that are disposed are refused, and leave nothing pinned', () => {
    const live = tensor([1]);
    const gone = tensor([2]);
    gone.dispose();
    expect(() => writeTable([live, gone])).toThrow(/disposed/);
    expect(live.storage.ioRefs).toBe(0);
  });

  it('that are too many or too large are refused, and leave nothing pinned', () => {
    const t = zeros([100]);
    const limits = { ...DEFAULT_TORCH_LIMITS, maxTensors: 2, maxMessageBytes: 399, maxMaterialisedBytes: 1 << 20 };
    expect(() => writeTable([t, t, t], limits)).toThrow(/^limit: tensors \(3 over the limit of 2\)/);
    expect(() => writeTable([t], limits)).toThrow(/^limit: storage \(400 over the limit of 399\)/);
    expect(() => writeTable([zeros([1]).expand([1 << 20])], limits)).toThrow(/^limit: tensors written out/);
    expect(t.storage.ioRefs).toBe(0);
  });
});

/** A table written by hand: what is not written by `writeTable`. */
class Forged extends ScriptWriter {
  table(write: () => void): Uint8Array {
    this.global('torch.jit._pickle', 'build_tensorlist');
    this.reduce(() => {
      this.op(0x5d);
      this.op(0x28);
      write();
      this.op(0x65);
    });
    return this.finish();
  }

  storage(type: string, key: string, elements: number, location = 'cpu'): void {
    this.marked(() => {
      this.string('storage');
      this.global('torch', type);
      this.string(key);
      this.string(location);
      this.int(elements);
    });
    this.op(0x51);
  }

  rebuild(
    storage: () => void,
    offset: number,
    shape: readonly number[],
    strides: readonly number[],
    more: () => void = () => undefined,
  ): void {
    this.global('torch._utils', '_rebuild_tensor_v2');
    this.reduce(() => {
      storage();
      this.int(offset);
      this.marked(() => shape.forEach((size) => this.int(size)));
      this.marked(() => strides.forEach((size) => this.int(size)));
      this.value(false);
      this.hooks();
      more();
    });
  }

  hooks(): void {
    this.global('collections', 'OrderedDict');
    this.op(0x29);
    this.op(0x52);
  }

  flags(flag: string): void {
    this.global('torch.jit._pickle', 'restore_type_tag');
    this.op(0x7d);
    this.op(0x28);
    this.string(flag);
    this.value(true);
    this.op(0x75);
    this.string('Dict[str, bool]');
    this.op(0x86);
    this.op(0x52);
  }

  sparse(layout: number, size: readonly number[], indices: () => void, values: () => void): void {
    this.global('torch._utils', '_rebuild_sparse_tensor');
    this.reduce(() => {
      this.int(layout);
      this.marked(() => size.forEach((n) => this.int(n)));
      this.value(false);
      indices();
      values();
      this.hooks();
    });
  }
}

describe('a table', () => {
  const float = (f: Forged): void => f.storage('FloatStorage', '0', 4);
  const long = (f: Forged): void => f.storage('LongStorage', '0', 2);
  const cases: [string, (f: Forged) => void, RegExp][] = [
    [
      'that reaches beyond its storage',
      (f) => f.rebuild(() => float(f), 0, [5], [1]),
      /reaches element 4 of a storage of 4/,
    ],
    ['that begins beyond it', (f) => f.rebuild(() => float(f), 4, [1], [1]), /reaches element 4/],
    ['that strides beyond it', (f) => f.rebuild(() => float(f), 0, [2, 2], [3, 1]), /reaches element 4/],
    [
      'with sizes that overflow',
      (f) => f.rebuild(() => float(f), 0, [2 ** 40, 2 ** 40], [0, 0]),
      /more than 2\^53 elements/,
    ],
    ['with a negative size', (f) => f.rebuild(() => float(f), 0, [-1], [1]), /the shape of a tensor/],
    ['with a negative offset', (f) => f.rebuild(() => float(f), -1, [1], [1]), /the offset of a tensor/],
    ['with fewer strides than sizes', (f) => f.rebuild(() => float(f), 0, [1, 1], [1]), /another number of strides/],
    [
      'with 65 dimensions',
      (f) => f.rebuild(() => float(f), 0, new Array<number>(65).fill(1), new Array<number>(65).fill(1)),
      /rank \(65/,
    ],
    [
      'over more elements than the storage has',
      (f) => f.rebuild(() => f.storage('FloatStorage', '0', 5), 0, [1], [1]),
      /size of storage 0/,
    ],
    [
      'over a storage that is not there',
      (f) => f.rebuild(() => f.storage('FloatStorage', '1', 1), 0, [1], [1]),
      /storage 1 of 1/,
    ],
    [
      'over a storage without a number',
      (f) => f.rebuild(() => f.storage('FloatStorage', '../0', 1), 0, [1], [1]),
      /without a number/,
    ],
    [
      'over a storage in a strange place',
      (f) => f.rebuild(() => f.storage('FloatStorage', '0', 1, 'disk!'), 0, [1], [1]),
      /no device/,
    ],
    [
      'of quantised elements',
      (f) => f.rebuild(() => f.storage('QUInt8Storage', '0', 1), 0, [1], [1]),
      /quantised tensors \(QUInt8Storage\)/,
    ],
    [
      'of elements that there are not',
      (f) => f.rebuild(() => f.storage('StringStorage', '0', 1), 0, [1], [1]),
      /without a class/,
    ],
    ['of something that is no storage', (f) => f.rebuild(() => f.value(1), 0, [1], [1]), /without a storage/],
    ['of something that is no tensor', (f) => f.value(1), /no Tensor/],
    [
      'with an unknown flag',
      (f) =>
        f.rebuild(
          () => float(f),
          0,
          [1],
          [1],
          () => f.flags('lazy'),
        ),
      /the flag 'lazy'/,
    ],
    [
      'with a conjugate of opaque elements',
      (f) =>
        f.rebuild(
          () => f.storage('ComplexDoubleStorage', '0', 1),
          0,
          [1],
          [1],
          () => f.flags('conj'),
        ),
      /a view of complex128 that is conjugated/,
    ],
    [
      'of sparse tensors of another layout',
      (f) =>
        f.sparse(
          2,
          [2],
          () => f.rebuild(() => long(f), 0, [1, 1], [1, 1]),
          () => f.rebuild(() => long(f), 0, [1], [1]),
        ),
      /a layout other than COO/,
    ],
    [
      'of sparse tensors without values',
      (f) =>
        f.sparse(
          1,
          [2],
          () => f.rebuild(() => long(f), 0, [1, 1], [1, 1]),
          () => f.value(null),
        ),
      /without indices or values/,
    ],
    [
      'of sparse tensors whose values do not fit',
      (f) =>
        f.sparse(
          1,
          [2],
          () => f.rebuild(() => long(f), 0, [1, 1], [1, 1]),
          () => f.rebuild(() => long(f), 0, [2], [1]),
        ),
      /do not fit the shape/,
    ],
    [
      'of sparse tensors of floating indices',
      (f) =>
        f.sparse(
          1,
          [2],
          () => f.rebuild(() => float(f), 0, [1, 1], [1, 1]),
          () => f.rebuild(() => float(f), 0, [1], [1]),
        ),
      /not an int64 matrix/,
    ],
    ['that names something else', (f) => f.global('os', 'system'), /names 'os.system'/],
  ];
  it.each(cases)('%s is refused', (_, write, message) => {
    const forged = new Forged();
    const bytes = forged.table(() => write(forged));
    expect(() => readTable(bytes, [16])).toThrow(message);
  });

  it('with indices outside of the shape is refused before a tensor is made', () => {
    const forged = new Forged();
    const bytes = forged.table(() =>
      forged.sparse(
        1,
        [2],
        () => forged.rebuild(() => long(forged), 0, [1, 1], [1, 1]),
        () => forged.rebuild(() => long(forged), 1, [1], [1]),
      ),
    );
    const entries = readTable(bytes, [16]);
    expect(() => buildEntries(entries, [new Uint8Array(BigInt64Array.of(2n, 0n).buffer)])).toThrow(
      /outside dimension 0 of size 2/,
    );
    expect(
      (buildEntries(entries, [new Uint8Array(BigInt64Array.of(1n, 5n).buffer)])[0] as Tensor).toDense().toArray(),
    ).toEqual([0n, 5n]);
  });

  it('of a view without elements is read wherever it begins', () => {
    const forged = new Forged();
    const bytes = forged.table(() => forged.rebuild(() => float(forged), 1_000, [1, 0], [1, 1]));
    const [found] = buildEntries(readTable(bytes, [16]), [new Uint8Array(16)]) as [Tensor];
    expect([found.shape, found.toArray()]).toEqual([[1, 0], [[]]]);
  });

  it('that is no list is refused', () => {
    const writer = new ScriptWriter();
    writer.value(1);
    expect(() => readTable(writer.finish(), [])).toThrow(/no list of tensors/);
  });

  it('of tensors larger than may be written out is refused', () => {
    const forged = new Forged();
    const bytes = forged.table(() => forged.rebuild(() => float(forged), 0, [1 << 30, 1 << 10], [0, 0]));
    expect(() => readTable(bytes, [16])).toThrow(/^limit: tensors written out/);
  });

  it.each(['conj', 'neg'])('computes views with the flag %s', (flag) => {
    const forged = new Forged();
    const bytes = forged.table(() =>
      forged.rebuild(
        () => forged.storage('ComplexFloatStorage', '0', 2),
        0,
        [2],
        [1],
        () => forged.flags(flag),
      ),
    );
    const storage = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
    const [found] = buildEntries(readTable(bytes, [16]), [storage]) as [Tensor];
    const plain = new Tensor({
      storage: through([tensorOverBytes(elementNamed('complex64')!, storage.slice(), [2], [1])]).map(
        (t) => (t as Tensor).storage,
      )[0]!,
      dtype: 'complex64',
      shape: [2],
      strides: [1],
      offset: 0,
    });
    expect(found.toArray()).toEqual((flag === 'conj' ? conj(plain) : plain.neg()).toArray());
    expect(found.storage.nbytes).toBe(16);
  });
});
