import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULT_WIRE_LIMITS, FrameKind, FrameReader, FrameWriter, SlabPool, WireError } from '../internal.ts';
import { Recorder, call, joined, open } from '../testdata/frames.ts';

/** A stream of many kinds of frame with bodies between them, and what a reader must make of it. */
function mixture(
  sizes: readonly number[],
  slabs = new SlabPool(4096),
): { bytes: Uint8Array; frames: number[]; bodies: number[] } {
  const writer = new FrameWriter(slabs);
  const frames: number[] = [];
  const bodies: number[] = [];
  sizes.forEach((size, i) => {
    if (i % 3 === 2) {
      bodies.push(size);
      writer.body(i, 1, 0, new Uint8Array(size).fill(i), 0);
    } else if (i % 3 === 1) {
      frames.push(size);
      writer.frame(FrameKind.CONTROL, 1, new Uint8Array(size).fill(i), i, 0);
    } else {
      frames.push(size);
      writer.begin();
      writer.out.raw(new Uint8Array(size).fill(i));
      writer.endCall(call());
    }
  });
  return { bytes: joined(writer), frames, bodies };
}

describe('FrameReader', () => {
  it('reads the same frames however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.nat(100), fc.nat(9000)), { minLength: 1, maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 20 }),
        (sizes, cuts) => {
          const { bytes, frames, bodies } = mixture(sizes);
          const sink = new Recorder();
          const reader = open(sink, DEFAULT_WIRE_LIMITS, 2048);
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const count = cuts[i % cuts.length] as number;
            reader.push(bytes.subarray(at, at + count));
            at += count;
          }
          expect(sink.frames.map((f) => f.payload.length)).toEqual(frames);
          expect(sink.bodies.map((b) => b.bytes.length)).toEqual(bodies);
          expect(sink.bodies.every((b) => b.bytes.every((byte) => byte === b.header.id))).toBe(true);
          expect(reader.midFrame).toBe(false);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('reads byte by byte', () => {
    const { bytes, frames } = mixture([0, 5, 8, 70, 0, 0]);
    const sink = new Recorder();
    const reader = open(sink);
    for (const byte of bytes) reader.push(Uint8Array.of(byte));
    expect(sink.frames.length).toBe(frames.length);
    expect(sink.bodies.length).toBe(2);
  });

  it('lets the source write body bytes where they belong', () => {
    const writer = new FrameWriter();
    const content = new Uint8Array(200_000).map((_, i) => i);
    writer.body(9, 2, 4096, content, 0);
    const bytes = joined(writer);
    const memory = new Uint8Array(content.length);
    const sink = new Recorder();
    sink.body = (header) => {
      expect(header).toMatchObject({ id: 9, a: 2, c: 4096 });
      return memory;
    };
    const reader = open(sink);
    reader.push(bytes.subarray(0, 100));
    const next = reader.nextBuffer();
    expect(next.buffer).toBe(memory.buffer);
    expect(next.byteOffset).toBe(100 - 48);
    next.set(bytes.subarray(100));
    reader.received(bytes.length - 100);
    expect(Buffer.compare(memory, content)).toBe(0);
    expect(sink.bodies[0]?.landed).toBe(content.length);
  });

  it.each([
    [900, 1],
    [1_024 - 24, 1],
    [1_024, 2],
    [5_220, 2],
    [40_000, 2],
  ])('reads a frame of %i bytes after a body in %i reads, and little of the body behind it', (length, most) => {
    const writer = new FrameWriter();
    writer.body(9, 2, 0, new Uint8Array(200_000), 0);
    writer.frame(FrameKind.CONTROL, 1, new Uint8Array(length).fill(7), 1, 0);
    const between = writer.pendingBytes;
    writer.body(9, 2, 0, new Uint8Array(200_000), 0);
    const bytes = joined(writer);
    const sink = new Recorder();
    const reader = open(sink);
    let [at, reads] = [0, 0];
    while (sink.frames.length === 0) {
      const next = reader.nextBuffer();
      const count = Math.min(next.length, bytes.length - at);
      next.set(bytes.subarray(at, at + count));
      reader.received(count);
      at += count;
      if (sink.bodies.length === 1) reads++;
    }
    expect(sink.frames[0]).toMatchObject({
      header: { kind: FrameKind.CONTROL },
      payload: new Uint8Array(length).fill(7),
    });
    // The read that ends the body is counted too.
    expect(reads - 1).toBeLessThanOrEqual(most);
    expect(at - between).toBeLessThanOrEqual(1_024);
  });

  it('throws bodies away that nobody wants, and stays in step', () => {
    const writer = new FrameWriter();
    writer.body(1, 0, 0, new Uint8Array(300_000), 0);
    writer.frame(FrameKind.ACK, 0, undefined, 0, 3);
    const sink = new Recorder();
    sink.discard = true;
    open(sink).push(joined(writer));
    expect(sink.frames.map((f) => f.header.kind)).toEqual([FrameKind.ACK]);
    expect(sink.bodies).toEqual([]);
  });

  it('gives the memory of a half landed body back when the connection ends', () => {
    const writer = new FrameWriter();
    writer.body(1, 0, 0, new Uint8Array(10_000), 0);
    const sink = new Recorder();
    const reader = open(sink);
    reader.push(joined(writer).subarray(0, 48 + 6000));
    expect(reader.midFrame).toBe(true);
    reader.close();
    reader.close();
    expect(sink.bodies.map((b) => b.landed)).toEqual([6000]);
    reader.push(new Uint8Array(10));
    expect(sink.frames).toEqual([]);
  });

  it('takes nothing but small handshake frames before it is opened', () => {
    const ack = new FrameWriter();
    ack.frame(FrameKind.ACK, 0, undefined, 0, 0);
    expect(() => new FrameReader(new Recorder()).push(joined(ack))).toThrow('protocol-error');
    const big = new Uint8Array(24);
    big[0] = FrameKind.HANDSHAKE;
    new DataView(big.buffer).setUint32(4, DEFAULT_WIRE_LIMITS.maxHandshakeBytes + 1, true);
    expect(() => new FrameReader(new Recorder()).push(big)).toThrow(
      'limit: handshake frame (4097 over the limit of 4096)',
    );
    const hello = new FrameWriter();
    hello.frame(FrameKind.HANDSHAKE, 0, Uint8Array.of(1), 0, 0);
    const sink = new Recorder();
    new FrameReader(sink).push(joined(hello));
    expect(sink.frames.length).toBe(1);
  });

  const broken: [string, (view: DataView) => void][] = [
    ['an unknown kind', (view) => view.setUint8(0, 99)],
    ['kind 0', (view) => view.setUint8(0, 0)],
    ['a sequence number past 2^53', (view) => view.setUint32(12, 0x20_0000, true)],
    ['an ack past 2^53', (view) => view.setUint32(20, 0xffff_ffff, true)],
    ['a call id past 2^53', (view) => view.setUint32(28, 0x20_0000, true)],
    ['sections longer than the frame', (view) => view.setUint32(40, 1, true)],
    ['sections whose sum wraps 32 bits', (view) => [40, 44, 48].forEach((at) => view.setUint32(at, 0xffff_ffff, true))],
    ['a length over the limit', (view) => view.setUint32(4, 0xffff_ffff, true)],
  ];
  it.each(broken)('refuses %s', (_what, damage) => {
    const writer = new FrameWriter();
    writer.begin();
    writer.endCall(call());
    const bytes = Uint8Array.from(joined(writer));
    damage(new DataView(bytes.buffer));
    const sink = new Recorder();
    expect(() => open(sink).push(bytes)).toThrow(WireError);
    expect(sink.frames).toEqual([]);
  });

  it('refuses a payload where none belongs', () => {
    const writer = new FrameWriter();
    writer.idFrame(FrameKind.PING, { id: 1 }, 0, 0);
    const bytes = Uint8Array.from(joined(writer));
    new DataView(bytes.buffer).setUint32(4, 5, true);
    expect(() => open(new Recorder()).push(bytes)).toThrow('no payload');
  });

  it('asks for little after a body, where the next often follows, and for much again after a frame', () => {
    const frames = new FrameWriter();
    frames.begin();
    frames.out.raw(new Uint8Array(5_000));
    frames.endCall(call());
    const [frame, writer] = [Uint8Array.from(joined(frames)), new FrameWriter()];
    writer.body(1, 0, 0, new Uint8Array(3_000), 0);
    const body = Uint8Array.from(joined(writer));
    for (const slab of [4_096, 65_536]) {
      const reader = open(new Recorder(), DEFAULT_WIRE_LIMITS, slab);
      const after: number[] = [];
      for (const bytes of [frame, body, frame, body, body, frame]) {
        reader.push(bytes);
        after.push(reader.nextBuffer().length);
      }
      expect(after.map((length) => length > 1_024)).toEqual([true, false, true, false, false, true]);
      expect(reader.midFrame).toBe(false);
    }
  });

  it('allocates for a large frame as its bytes arrive, not for its length', () => {
    const header = new Uint8Array(56);
    const view = new DataView(header.buffer);
    view.setUint8(0, FrameKind.CALL);
    view.setUint32(4, DEFAULT_WIRE_LIMITS.maxFrameBytes, true);
    const reader = open(new Recorder());
    reader.push(header);
    let largest = 0;
    for (let i = 0; i < 40; i++) {
      const next = reader.nextBuffer();
      largest = Math.max(largest, next.buffer.byteLength);
      reader.received(Math.min(next.length, 65_536));
    }
    expect(largest).toBeLessThanOrEqual(8 * 1024 * 1024);
    expect(largest).toBeGreaterThan(1024 * 1024);
  });
});
