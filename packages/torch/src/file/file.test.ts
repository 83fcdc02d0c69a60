/** @file Files of torch.save, read; files for torch.load, written: what torch made and read when the goldens were made. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { Tensor, TensorError, nn, tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { Describer, computed } from '../../test/describe.ts';
import { savedCases, savedFiles, savedState } from '../../test/saved.ts';
import { PyDeque, type PyOrderedDict, PyTuple } from '../values/containers.ts';
import { PyFloat, PyRange } from '../values/numbers.ts';
import { type OpaqueTensor } from '../values/opaque-tensor.ts';
import { loadStateDict, loadTorchFile } from './load.ts';
import { saveStateDict, saveTorchFile } from './save.ts';
import { ZipArchive, writeZip } from './zip.ts';

interface Kept {
  readonly read: Readonly<Record<string, string>>;
  readonly saved: Readonly<Record<string, { readonly bytes: string; readonly text: string }>>;
}
const kept = JSON.parse(readFileSync(new URL('../../golden/files.json', import.meta.url), 'utf8')) as Kept;
const file = (name: string): Buffer => readFileSync(new URL(`../../golden/files/${name}.pt`, import.meta.url));
const brief = (text: string): string =>
  text.length <= 2_000 ? text : `sha256 ${createHash('sha256').update(text).digest('hex')}`;
/** All contents of an archive. */
function readZip(bytes: Uint8Array, maxEntries: number): Map<string, Uint8Array> {
  const archive = new ZipArchive(new Uint8Array(bytes), maxEntries);
  return new Map(archive.names().map((name) => [name, archive.read(name) as Uint8Array]));
}
/** Of `value`, which is a Map, what is under `key`. */
const at = (value: unknown, ...keys: unknown[]): unknown =>
  keys.reduce((v, key) => (v as Map<unknown, unknown>).get(key), value);

describe('files that torch.save wrote', () => {
  it.each(Object.keys(kept.read))('%s.pt says what torch put into it', (name) => {
    const value = loadTorchFile(file(name), { exact: true });
    for (const key of ['conjugate', 'negative']) if (name === 'tensors') computed.add(at(value, key) as Tensor);
    expect(new Describer().value(value)).toBe(kept.read[name]);
  });

  it('a state dict loads into a module of the same shape', () => {
    const net = new nn.Sequential(new nn.Linear(2, 3), new nn.BatchNorm1d(3));
    const state = loadStateDict(file('state'));
    net.loadStateDict(state);
    expect([...net.stateDict().keys()]).toEqual([...state.keys()]);
    for (const [name, loaded] of net.stateDict()) expect(loaded.toArray()).toEqual(state.get(name)?.toArray());
    expect(state.get('1.num_batches_tracked')?.dtype).toBe('int64');
  });

  it('a state dict is found inside of a checkpoint; numbers are numbers', () => {
    expect([...loadStateDict(file('checkpoint'), { at: ['model'] }).keys()]).toEqual([
      ...loadStateDict(file('state')).keys(),
    ]);
    const checkpoint = loadTorchFile(file('checkpoint'));
    expect(at(checkpoint, 'loss')).toBe(1);
    expect(at(checkpoint, 'epoch')).toBe(3);
    expect(at(checkpoint, 'tags')).toEqual(['a', PyTuple.of<unknown>('b', 1)]);
    expect(at(loadTorchFile(file('checkpoint'), { exact: true }), 'loss')).toEqual(new PyFloat(1));
    expect((at(checkpoint, 'model') as PyOrderedDict).attributes?.has('_metadata')).toBe(true);
  });

  it('views of one storage are views of it here', () => {
    const [whole, part] = at(loadTorchFile(file('tensors')), 'views') as [Tensor, Tensor];
    part.mul_(10);
    expect(whole.toArray()).toEqual([0, 10, 20, 3, 4, 5]);
  });

  it('a change of a loaded tensor leaves the file as it is', () => {
    const bytes = new Uint8Array(file('state'));
    const before = bytes.slice();
    loadStateDict(bytes).get('1.weight')?.mul_(5);
    expect(Buffer.compare(bytes, before)).toBe(0);
  });

  it('are read at any place in memory', () => {
    const bytes = file('tensors');
    for (let shift = 1; shift < 8; shift++) {
      const moved = new Uint8Array(bytes.length + shift).subarray(shift);
      moved.set(bytes);
      const value = loadTorchFile(moved, { exact: true });
      for (const key of ['conjugate', 'negative']) computed.add(at(value, key) as Tensor);
      expect(new Describer().value(value)).toBe(kept.read['tensors']);
    }
  });

  it.each([
    ['before-1.6', /before torch 1\.6; load and save it with a newer torch/],
    ['object', /names '__main__.Custom'/],
    ['module', /names 'torch.nn.modules.linear.Linear'/],
    ['quantised', /quantised tensors/],
    ['csr', /layout other than COO/],
    ['script', /TorchScript program/],
  ])('%s.pt is refused in words', (name, message) => {
    expect(() => loadTorchFile(file(name))).toThrow(TensorError);
    expect(() => loadTorchFile(file(name))).toThrow(message);
  });

  it('what is no state dict is named', () => {
    for (const bytes of [null, undefined, 'model.pt', new ArrayBuffer(8)] as never[])
      expect(() => loadStateDict(bytes)).toThrow(/read from its bytes, a Uint8Array; got/);
    expect(() => loadStateDict(file('checkpoint'))).toThrow(/\['model'\] is no tensor/);
    expect(() => loadStateDict(file('checkpoint'), { at: ['nope'] })).toThrow(/\['nope'\] is not there/);
    expect(() => loadStateDict(file('checkpoint'), { at: ['epoch'] })).toThrow(/\['epoch'\] is no dict/);
    expect(() => loadStateDict(file('checkpoint'), { at: ['optimizer', 'state'] })).toThrow(
      /has a key that is no text/,
    );
    const opaque = at(loadTorchFile(file('tensors')), 'dtypes') as OpaqueTensor[];
    const saved = saveStateDict(new Map([['w', opaque.find(({ dtype }) => dtype === 'complex128') as OpaqueTensor]]));
    expect(() => loadStateDict(saved)).toThrow(/\['w'\] is complex128, which nothing here computes with/);
  });
});

describe('files for torch.load', () => {
  const files = savedFiles();

  it.each(Object.keys(files))('%s: the bytes that torch loaded, and it saw what was meant', (name) => {
    const { bytes, text } = kept.saved[name] as { bytes: string; text: string };
    expect(brief(files[name] as string)).toBe(bytes);
    expect(text).toBe(brief(name === 'state' ? savedState.text : (savedCases[name]?.[1] ?? '')));
  });

  it.each(Object.keys(files))('%s: is read here, too', (name) => {
    const value = loadTorchFile(Buffer.from(files[name] as string, 'base64'), { exact: true });
    expect(new Describer().value(value)).toBe(name === 'state' ? savedState.text : savedCases[name]?.[1]);
  });

  it('two element types over one storage get one each', () => {
    const floats = tensor([1, 2]);
    const { storage } = floats;
    const value = loadTorchFile(
      saveTorchFile([floats, new Tensor({ storage, dtype: 'int32', shape: [2], strides: [1], offset: 0 })]),
    );
    expect((value as Tensor[]).map((t) => [t.dtype, t.toArray()])).toEqual([
      ['float32', [1, 2]],
      ['int32', [0x3f800000, 0x40000000]],
    ]);
  });

  it('every record begins at a multiple of 64, as torch maps them', () => {
    const bytes = saveTorchFile([1, 2, 3].map((n) => tensor([n])));
    for (const content of readZip(bytes, 100).values()) expect(content.byteOffset % 64).toBe(0);
  });

  it.each([
    ['a deque', { a: [new PyDeque()] }, /torch.load would not read a PyDeque at \.a\[0\]/],
    ['a range', new PyRange(0, 1), /would not read a PyRange/],
    ['a typed array', new Float32Array(2), /would not read a Float32Array/],
    ['a function', [() => 1], /reads no function at \[0\]/],
    ['a Date', new Date(0), /would not read a Date/],
  ])('%s is refused, naming its place', (_, value, message) => {
    expect(() => saveTorchFile(value)).toThrow(message);
  });

  it('a value that is nested too deeply is refused', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 600; i++) deep = [deep];
    expect(() => saveTorchFile(deep)).toThrow(/containers in containers.*600|over the limit of 500/);
  });
});

describe('archives', () => {
  const contents = new Map([
    ['a/one', Uint8Array.of(1, 2, 3)],
    ['a/empty', new Uint8Array(0)],
    ['ü', new Uint8Array(1_000).fill(7)],
  ]);
  const archive = writeZip(contents, 64);

  it('are read again, with a comment behind them, too', () => {
    expect(readZip(archive, 10)).toEqual(contents);
    const comment = Buffer.concat([archive, Buffer.from('a comment')]);
    comment.writeUInt16LE(9, archive.length - 2);
    expect(readZip(comment, 10)).toEqual(contents);
  });

  it('with sizes of 64 bits are read', () => {
    // An entry whose sizes stand in the extra field, as writers of streams do.
    const name = Buffer.from('x');
    const content = Buffer.from('hello');
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50);
    local.writeUInt16LE(1, 26);
    const extra = Buffer.alloc(28);
    extra.writeUInt16LE(1);
    extra.writeUInt16LE(24, 2);
    extra.writeBigUInt64LE(5n, 4);
    extra.writeBigUInt64LE(5n, 12);
    extra.writeBigUInt64LE(0n, 20);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50);
    central.writeUInt32LE(crc32(content), 16);
    [20, 24, 42].forEach((field) => central.writeUInt32LE(0xffff_ffff, field));
    central.writeUInt16LE(1, 28);
    central.writeUInt16LE(28, 30);
    const end = Buffer.alloc(22);
    end.writeUInt32LE(0x06054b50);
    end.writeUInt16LE(1, 10);
    end.writeUInt32LE(36, 16);
    const bytes = Buffer.concat([local, name, content, central, name, extra, end]);
    expect(readZip(bytes, 10)).toEqual(new Map([['x', new Uint8Array(content)]]));
  });

  it.each([
    [
      'with a byte changed',
      (b: Buffer) => ((b[b.indexOf(Buffer.of(1, 2, 3))] = 9), b),
      /checksum of 'a\/one' does not fit/,
    ],
    [
      'that is compressed',
      (b: Buffer) => (b.writeUInt16LE(8, b.indexOf('PK\x01\x02', 0, 'latin1') + 10), b),
      /is compressed/,
    ],
    [
      'that is encrypted',
      (b: Buffer) => (b.writeUInt16LE(1, b.indexOf('PK\x01\x02', 0, 'latin1') + 8), b),
      /is encrypted/,
    ],
    ['that is cut off', (b: Buffer) => b.subarray(0, -30), /cut off/],
    [
      'with a content past its end',
      (b: Buffer) => (b.writeUInt32LE(1 << 30, b.indexOf('PK\x01\x02', 0, 'latin1') + 24), b),
      /damaged/,
    ],
    ['with a list past its end', (b: Buffer) => (b.writeUInt32LE(1 << 30, b.length - 6), b), /damaged/],
    ['with more entries than there may be', (b: Buffer) => b, /entries of an archive \(3 over the limit of 2\)/],
  ] as const)('%s are refused', (title, damage, message) => {
    const bytes = damage(Buffer.from(archive));
    expect(() => readZip(bytes, title.startsWith('with more') ? 2 : 10)).toThrow(message);
  });

  it('with two entries of one name are refused', () => {
    const twice = Buffer.from(
      writeZip(
        new Map([
          ['a', Uint8Array.of(1)],
          ['b', Uint8Array.of(1)],
        ]),
        1,
      ),
    );
    twice.write('a', twice.indexOf('b', twice.indexOf('PK\x01\x02')));
    expect(() => readZip(twice, 10)).toThrow(/two entries 'a'/);
  });
});
