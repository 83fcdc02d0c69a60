import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeValue } from '../index.ts';
import {
  DEFAULT_WIRE_LIMITS,
  FrameHeader,
  FrameKind,
  type FrameRegion,
  FrameWriter,
  SlabPool,
  ValueCodec,
  WireError,
  frameName,
  frameTable,
  patchAck,
  patchRemaining,
  writeSequence,
  readHeader,
  valueEnd,
} from '../internal.ts';
import { Recorder, type Seen, call, joined, open } from '../testdata/frames.ts';

describe('call frames', () => {
  it('carry every field and section', () => {
    const writer = new FrameWriter();
    writer.begin();
    writer.out.raw(Uint8Array.of(1, 2, 3));
    const fields = call({
      flags: 5,
      seq: 2 ** 40 + 3,
      ack: 2 ** 52,
      callId: 2 ** 53 - 1,
      fn: 0xffff_fffe,
      remainingMs: 1234.2,
    });
    writer.endCall(fields, 'modül/f', [{ extension: 'rref', data: Uint8Array.of(9) }]);
    const sink = new Recorder();
    open(sink).push(joined(writer));
    const [{ header, payload }] = sink.frames as [Seen];
    expect(header).toMatchObject({
      kind: FrameKind.CALL,
      flags: 5,
      messageType: 0x102,
      seq: 2 ** 40 + 3,
      ack: 2 ** 52,
    });
    expect(header).toMatchObject({
      id: 2 ** 53 - 1,
      fn: 0xffff_fffe,
      remainingMs: 1235,
      tensorCount: 0,
      inlineLength: 0,
    });
    expect([...payload.subarray(0, valueEnd(header, payload.length))]).toEqual([1, 2, 3]);
    expect(frameName(header, payload, payload.length)).toBe('modül/f');
    expect(frameTable(header, payload, payload.length)).toEqual([{ extension: 'rref', data: Uint8Array.of(9) }]);
  });

  it('say that there is no deadline, which is not 0', () => {
    for (const remainingMs of [-1, 0, 0xffff_ffff]) {
      const writer = new FrameWriter();
      writer.begin();
      writer.endCall(call({ remainingMs }));
      const header = new FrameHeader();
      const bytes = joined(writer);
      readHeader(new DataView(bytes.buffer, bytes.byteOffset), 0, header);
      expect(header.remainingMs).toBe(remainingMs === 0xffff_ffff ? 0xffff_fffe : remainingMs);
    }
  });

  it('move to another slab when the value outgrows the one they began in', () => {
    const slabs = new SlabPool(1024, 4);
    const writer = new FrameWriter(slabs);
    const sink = new Recorder();
    const sizes = [10, 500, 2000, 100_000, 3, 900];
    for (const [i, size] of sizes.entries()) {
      writer.begin();
      for (let n = 0; n < size; n++) writer.out.u8(i);
      const region = writer.endCall(call({ seq: i + 1 }));
      expect(region.end - region.start).toBe(56 + size);
    }
    open(sink).push(joined(writer));
    expect(sink.frames.map((f) => f.payload.length)).toEqual(sizes);
    expect(sink.frames.every((f, i) => f.payload.every((byte) => byte === i))).toBe(true);
    writer.dispose();
    expect(slabs.usedBytes).toBe(0);
  });

  it('have the same bytes wherever the value had to move to another slab', () => {
    const value = fc.anything({ withBigInt: true, withMap: true, withSet: true, withTypedArray: true, maxDepth: 4 });
    const big = fc.oneof(
      value,
      fc.array(fc.string({ maxLength: 300 }), { maxLength: 40 }),
      fc.string({ minLength: 400, maxLength: 20_000 }),
    );
    const codec = new ValueCodec<undefined>();
    fc.assert(
      fc.property(fc.array(big, { minLength: 1, maxLength: 5 }), (values) => {
        const slabs = new SlabPool(600, 2);
        const writer = new FrameWriter(slabs);
        const sink = new Recorder();
        for (const one of values) {
          writer.begin();
          codec.write(writer.out, one, [], undefined);
          writer.endCall(call());
        }
        open(sink).push(joined(writer));
        expect(sink.frames.map((frame) => Buffer.from(frame.payload).toString('hex'))).toEqual(
          values.map((one) => Buffer.from(encodeValue(one).bytes).toString('hex')),
        );
        writer.dispose();
        expect(slabs.usedBytes).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  it('leave nothing behind when their value fails', () => {
    const writer = new FrameWriter();
    writer.begin();
    writer.out.raw(new Uint8Array(100));
    writer.abort();
    writer.begin();
    writer.endCall(call());
    expect(joined(writer).length).toBe(56);
  });

  it('refuse a second frame while one is open', () => {
    const writer = new FrameWriter();
    writer.begin();
    expect(() => writer.frame(FrameKind.ACK, 0, undefined, 0, 0)).toThrow('a frame is open');
    expect(() => writer.flush()).toThrow('a frame is open');
  });

  it('respect the limits on the sending side, and drop the frame', () => {
    const writer = new FrameWriter(new SlabPool(), {
      ...DEFAULT_WIRE_LIMITS,
      maxFrameBytes: 10,
      maxNameBytes: 4,
      maxHeaderEntries: 1,
    });
    const entry = { extension: 'e', data: new Uint8Array(0) };
    for (const end of [
      () => writer.endCall(call(), 'longer'),
      () => writer.endCall(call(), undefined, [entry, entry]),
      () => {
        writer.out.raw(new Uint8Array(11));
        writer.endCall(call());
      },
    ]) {
      writer.begin();
      expect(end).toThrow(WireError);
      expect(writer.open).toBe(false);
    }
    expect(writer.flush()).toBeUndefined();
  });

  it('stop growing at the limit, not after it', () => {
    const slabs = new SlabPool();
    const writer = new FrameWriter(slabs, { ...DEFAULT_WIRE_LIMITS, maxFrameBytes: 1 << 20 });
    const codec = new ValueCodec<undefined>();
    const megabyte = 'x'.repeat(1 << 20);
    let read = 0;
    const list = Array.from({ length: 1000 }, () => ({
      get text() {
        read++;
        return megabyte;
      },
    }));
    writer.begin();
    expect(() => codec.write(writer.out, list, [], undefined)).toThrow('limit: frame');
    writer.abort();
    expect(read).toBeLessThan(4);
    expect(slabs.usedBytes).toBeLessThan(8 << 20);
    writer.begin();
    writer.endCall(call());
    expect(joined(writer).length).toBe(56);
  });
});

describe('writes', () => {
  const fill = (writer: FrameWriter, byte: number, frames = 3): void => {
    for (let i = 0; i < frames; i++) {
      writer.begin();
      writer.out.raw(new Uint8Array(900).fill(byte));
      writer.endCall(call());
    }
  };

  it('give back their own memory and none of another, in whatever order', () => {
    const slabs = new SlabPool(1024, 8);
    const writer = new FrameWriter(slabs);
    const writes = [1, 2, 3].map((byte) => {
      fill(writer, byte);
      const write = writer.flush();
      if (write === undefined) throw new Error('nothing was written');
      return { write, bytes: Buffer.concat(write.chunks) };
    });
    writer.dispose();
    const [first, second, third] = writes as [(typeof writes)[0], (typeof writes)[0], (typeof writes)[0]];
    const used = [slabs.usedBytes];
    for (const { write } of [second, first]) {
      write.release();
      used.push(slabs.usedBytes);
    }
    // What was given back is used again; the third write still stands as it was.
    fill(new FrameWriter(slabs), 9, 6);
    expect(Buffer.concat(third.write.chunks)).toEqual(third.bytes);
    expect(used.every((bytes, i) => i === 0 || bytes < (used[i - 1] as number))).toBe(true);
  });

  it('leave nothing of what is forgotten, or was never flushed', () => {
    const slabs = new SlabPool(1024, 8);
    const writer = new FrameWriter(slabs);
    fill(writer, 1);
    expect(writer.pendingBytes).toBe(3 * 956);
    writer.forget();
    expect([writer.pendingBytes, writer.flush()]).toEqual([0, undefined]);
    fill(writer, 2, 1);
    expect(joined(writer)).toHaveLength(956);
    fill(writer, 3);
    writer.dispose();
    expect(slabs.usedBytes).toBe(0);
  });

  it('begin at the front of memory that is used again', () => {
    const slabs = new SlabPool(8_192, 8);
    for (let i = 0; i < 4; i++) {
      const writer = new FrameWriter(slabs);
      fill(writer, i, 12);
      expect(joined(writer)).toHaveLength(12 * 956);
      writer.dispose();
      expect([slabs.usedBytes, slabs.take().used]).toEqual([0, 0]);
      slabs.usedBytes = 0;
    }
  });
});

describe('regions', () => {
  it('can be patched and sent again while the session holds their slab', () => {
    const slabs = new SlabPool();
    const writer = new FrameWriter(slabs);
    writer.begin();
    const region = writer.endCall(call({ seq: 0, remainingMs: 50 }));
    region.slab.retain();
    joined(writer);
    writeSequence(region.slab.view, region.start, 11, 4);
    patchRemaining(region.slab.view, region.start, 20);
    patchAck(region.slab.view, region.start, 5);
    writer.repeat(region);
    writer.frame(FrameKind.ACK, 0, undefined, 0, 5);
    const sink = new Recorder();
    open(sink).push(joined(writer));
    expect(sink.frames.map((f) => [f.header.kind, f.header.seq, f.header.ack])).toEqual([
      [FrameKind.CALL, 11, 5],
      [FrameKind.ACK, 0, 5],
    ]);
    expect(sink.frames[0]?.header.remainingMs).toBe(20);
    region.slab.release();
    writer.dispose();
    expect(slabs.usedBytes).toBe(0);
  });

  it('give every slab back, in whatever order writes end and frames are acknowledged', () => {
    const step = fc.oneof(
      fc.record({ op: fc.constant('frame' as const), size: fc.nat(3000) }),
      fc.record({ op: fc.constant('body' as const), size: fc.nat(100) }),
      fc.record({ op: fc.constantFrom('flush', 'forget', 'sent', 'acked', 'fail', 'repeat'), size: fc.nat(10) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const slabs = new SlabPool(2048, 2);
        const writer = new FrameWriter(slabs);
        const writes: { release(): void }[] = [];
        const kept: FrameRegion[] = [];
        for (const { op, size } of steps) {
          if (op === 'frame') {
            writer.begin();
            for (let i = 0; i < size; i++) writer.out.u8(i);
            const region = writer.endCall(call());
            region.slab.retain();
            kept.push({ ...region });
          } else if (op === 'body') writer.body(1, 0, 0, new Uint8Array(size), 0);
          else if (op === 'flush') {
            const pending = writer.flush();
            if (pending !== undefined) writes.push(pending);
          } else if (op === 'forget') writer.forget();
          else if (op === 'sent') writes.splice(size % (writes.length || 1), 1)[0]?.release();
          else if (op === 'acked') kept.shift()?.slab.release();
          else if (op === 'repeat' && kept[0] !== undefined) writer.repeat(kept[0]);
          else if (op === 'fail') {
            writer.begin();
            writer.out.raw(new Uint8Array(size * 1000));
            writer.abort();
          }
        }
        // What is retained is still what was written.
        for (const { slab, start, end } of kept)
          expect(slab.bytes.subarray(start + 56, end).every((byte, i) => byte === (i & 0xff))).toBe(true);
        for (const { slab } of kept) slab.release();
        for (const pending of writes) pending.release();
        writer.dispose();
        expect(slabs.usedBytes).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  it('join a tick into one chunk', () => {
    const writer = new FrameWriter();
    for (let i = 0; i < 20; i++) {
      writer.begin();
      writer.endCall(call({ seq: i + 1 }));
      writer.idFrame(FrameKind.CANCEL, { id: i }, 0, 0);
    }
    const write = writer.flush();
    expect(write?.chunks.length).toBe(1);
    expect(write?.bytes).toBe(20 * (56 + 48));
    expect(writer.flush()).toBeUndefined();
  });
});

describe('id and control frames', () => {
  it('carry their fields', () => {
    const writer = new FrameWriter();
    writer.idFrame(FrameKind.CREDIT, { id: 2 ** 53 - 1, a: 0xffff_ffff, b: 7, c: 2 ** 41 }, 3, 2);
    writer.frame(FrameKind.CONTROL, 0x10b, Uint8Array.of(1, 2), 4, 2);
    const sink = new Recorder();
    open(sink).push(joined(writer));
    expect(sink.frames[0]?.header).toMatchObject({
      id: 2 ** 53 - 1,
      a: 0xffff_ffff,
      b: 7,
      c: 2 ** 41,
      seq: 3,
      ack: 2,
      length: 0,
    });
    expect(sink.frames[1]?.header).toMatchObject({ kind: FrameKind.CONTROL, messageType: 0x10b, seq: 4 });
    expect([...(sink.frames[1]?.payload ?? [])]).toEqual([1, 2]);
  });
});
