/** @file The bounds of what a frame says of its tensors and extensions, on both sides, and fields of a newer version in it. */
import { tensor, zeros } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  ByteReader,
  ByteWriter,
  DEFAULT_WIRE_LIMITS,
  FrameWriter,
  planTensors,
  readTensorTable,
  SlabPool,
  ValueCodec,
  type WireLimits,
} from '../internal.ts';
import { readHeaderTable, writeHeaderTable } from '../frame/header-table.ts';
import { call, joined } from '../testdata/frames.ts';
import { writeStorage, writeTensor } from './table-codec.ts';

/** Field 100, of every wire type; its bytes look like a first field that is cut off. */
const UNKNOWN = Buffer.from('a00605' + 'a1060102030405060708' + 'a206020a7f' + 'a50601020304', 'hex');

/** The same messages, each with fields that nobody knows before and after its own, and between them. */
function widened(bytes: Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [UNKNOWN];
  const reader = new ByteReader(bytes);
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    const contents = Buffer.concat([UNKNOWN, reader.view8(), UNKNOWN]);
    if (contents.length > 127) throw new Error('too long for one byte');
    parts.push(Uint8Array.of(tag, contents.length), contents, UNKNOWN);
  }
  return Buffer.concat(parts);
}

function written(write: (out: ByteWriter) => void): Uint8Array {
  const out = new ByteWriter();
  write(out);
  return out.finish();
}

const channel = { nbytes: 8, placement: 'channel', channel: 'c', locator: new Uint8Array(20) } as const;
const table = written((out) => {
  writeStorage(out, { nbytes: 8, placement: 'inline' });
  writeStorage(out, channel);
  for (const storage of [0, 1])
    writeTensor(out, {
      ...{ dtype: 'float32', shape: [2], strides: [1], offset: 0, storage, requiresGrad: true },
      ...{ device: 'cpu', parameter: false, sparse: undefined },
    });
});
const read = (bytes: Uint8Array, limits: Partial<WireLimits> = {}): ReturnType<typeof readTensorTable> =>
  readTensorTable(bytes, 0, bytes.length, { ...DEFAULT_WIRE_LIMITS, ...limits });

describe('a table of tensors', () => {
  it('is read the same where a newer version says more', () => {
    const known = read(table);
    expect([known.storages.length, known.tensors.length]).toEqual([2, 2]);
    expect(read(widened(table))).toEqual(known);
  });

  it.each<[string, Partial<WireLimits>, Partial<WireLimits>]>([
    ['storages', { maxTensors: 1 }, { maxTensors: 2 }],
    ['locator', { maxNameBytes: 19 }, { maxNameBytes: 20 }],
    ['rank', { maxRank: 0 }, { maxRank: 1 }],
  ])('is refused over its limit: %s', (what, over, within) => {
    expect(() => read(table, over)).toThrow(`limit: ${what}`);
    expect(read(table, within)).toEqual(read(table));
  });

  it.each<[string, Partial<WireLimits>, Partial<WireLimits>]>([
    ['tensors', { maxTensors: 1 }, { maxTensors: 2 }],
    ['message', { maxMessageBytes: 11 }, { maxMessageBytes: 12 }],
  ])('is not written over its limit, and the frame is dropped: %s', (what, over, within) => {
    const values = [tensor([1, 2]), zeros([1])];
    const attempt = (limits: Partial<WireLimits>): (() => Uint8Array) => {
      const writer = new FrameWriter(new SlabPool(), { ...DEFAULT_WIRE_LIMITS, ...limits });
      return () => {
        writer.begin();
        try {
          writer.endCall(call(), undefined, undefined, planTensors(values));
        } catch (error) {
          expect([writer.open, writer.flush()]).toEqual([false, undefined]);
          throw error;
        }
        return joined(writer);
      };
    };
    expect(attempt(over)).toThrow(`limit: ${what}`);
    expect(attempt(within)().length).toBeGreaterThan(56);
  });

  it('is as long as the value has different tensors, up to the limit', () => {
    const codec = new ValueCodec<undefined>([], { ...DEFAULT_WIRE_LIMITS, maxTensors: 2 });
    const [a, b, c] = [zeros([1]), zeros([1]), zeros([1])];
    expect(() => codec.write(new ByteWriter(), [a, b, a, b], [], undefined)).not.toThrow();
    expect(() => codec.write(new ByteWriter(), [a, b, c], [], undefined)).toThrow('limit: tensors');
  });
});

describe('a table of extensions', () => {
  const entries = ['a', 'b', 'c'].map((extension, i) => ({ extension, data: new Uint8Array(i).fill(i) }));
  const bytes = written((out) => void writeHeaderTable(out, entries, DEFAULT_WIRE_LIMITS));

  it('is read the same where a newer version says more', () => {
    expect(readHeaderTable(bytes)).toEqual(entries);
    expect(readHeaderTable(widened(bytes))).toEqual(entries);
  });

  it('is refused over its limits', () => {
    expect(() => readHeaderTable(bytes, { ...DEFAULT_WIRE_LIMITS, maxHeaderEntries: 2 })).toThrow('header entries');
    expect(readHeaderTable(bytes, { ...DEFAULT_WIRE_LIMITS, maxHeaderEntries: 3 })).toEqual(entries);
    const long = written(
      (out) => void writeHeaderTable(out, [{ extension: 'long', data: new Uint8Array(0) }], DEFAULT_WIRE_LIMITS),
    );
    expect(() => readHeaderTable(long, { ...DEFAULT_WIRE_LIMITS, maxNameBytes: 3 })).toThrow('extension name');
  });
});
