import { type Tensor, randn, tensor, zeros } from '@backwire/tensor';
import { describe, expect, it, vi } from 'vitest';
import {
  BufferPool,
  bufferPool,
  type CallFields,
  type CallRegion,
  DEFAULT_WIRE_LIMITS,
  type FrameHeader,
  FrameKind,
  FrameReader,
  type FrameSink,
  FrameWriter,
  IncomingTensors,
  SlabPool,
  ValueCodec,
  WireError,
  frameTensors,
  planTensors,
  readTensorTable,
  valueEnd,
} from '../internal.ts';

const codec = new ValueCodec<undefined>();
const fields: CallFields = {
  kind: FrameKind.CALL,
  flags: 0,
  messageType: 0x102,
  seq: 1,
  ack: 0,
  callId: 1,
  fn: 1,
  remainingMs: -1,
};

function write(writer: FrameWriter, value: unknown): CallRegion {
  const tensors: Tensor[] = [];
  writer.begin();
  codec.write(writer.out, value, tensors, undefined);
  return writer.endCall(fields, undefined, undefined, planTensors(tensors));
}

/** What a session does with a call frame and its bodies, without the session. */
class Receiver implements FrameSink {
  readonly pool = new BufferPool();
  readonly values: unknown[] = [];
  incoming: IncomingTensors | undefined;
  private decode: ((tensors: Tensor[]) => unknown) | undefined;
  private missing = 0;

  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    this.incoming = frameTensors(header, bytes, end, DEFAULT_WIRE_LIMITS, this.pool);
    const value = bytes.slice(start, valueEnd(header, end));
    this.decode = (tensors) => codec.read(value, 0, value.length, tensors, undefined);
    this.missing = this.incoming?.bodyBytes ?? 0;
    this.finish();
  }
  body(header: FrameHeader): Uint8Array | undefined {
    this.incoming?.pin();
    return this.incoming?.place(header.a, header.c, header.length);
  }
  bodyEnd(_header: FrameHeader, landed: number): void {
    this.incoming?.unpin();
    this.missing -= landed;
    this.finish();
  }
  private finish(): void {
    if (this.missing === 0) this.values.push(this.decode?.(this.incoming?.tensors() ?? []));
  }
}

const hostBytes = (t: Tensor): Uint8Array => t.storage.hostBytes();

function bytesOf(writer: FrameWriter): Uint8Array {
  const pending = writer.flush();
  const bytes = Uint8Array.from(Buffer.concat(pending?.chunks ?? []));
  pending?.release();
  return bytes;
}

function send(value: unknown): { receiver: Receiver; reader: FrameReader; region: CallRegion } {
  const writer = new FrameWriter();
  const region = write(writer, value);
  for (const body of region.bodies) {
    for (let at = 0; at < body.bytes.length; at += 300_000)
      writer.body(1, body.storage, at, body.bytes.subarray(at, at + 300_000), 0);
  }
  const receiver = new Receiver();
  const reader = new FrameReader(receiver);
  reader.phase = 'open';
  reader.push(bytesOf(writer));
  for (const body of region.bodies) body.release();
  return { receiver, reader, region };
}

describe('tensors in call frames', () => {
  it('ride inline when they are small', () => {
    const { receiver, region } = send({ a: tensor([1, 2]), b: [zeros([0])] });
    expect(region.bodies).toEqual([]);
    const [value] = receiver.values as [{ a: Tensor; b: [Tensor] }];
    expect([value.a.toArray(), value.b[0].shape]).toEqual([[1, 2], [0]]);
  });

  it('follow out of band when they are large, in pieces, into memory of the pool', () => {
    const large = randn([300, 1000]);
    const { receiver, region } = send([large, tensor([5])]);
    expect(region.bodies.map((body) => [body.storage, body.bytes.length])).toEqual([[0, 1_200_000]]);
    const [[back, small]] = receiver.values as [[Tensor, Tensor]];
    // Not with a kernel: some backends keep an alias, and then the memory is not pooled.
    expect(Buffer.compare(hostBytes(back), hostBytes(large))).toBe(0);
    expect(small.toArray()).toEqual([5]);
    back.dispose();
    expect(receiver.pool.stats().freeBytes).toBe(2 << 20);
  });

  it('go out of band too when there are many small ones', () => {
    const many = Array.from({ length: 10 }, (_, i) => tensor(new Float32Array(2500).fill(i)));
    const { receiver, region } = send(many);
    expect(region.bodies.length).toBe(4);
    expect((receiver.values[0] as Tensor[]).map((t) => [t.size, t.select(0, 9).item()])).toEqual(
      many.map((_, i) => [2500, i]),
    );
  });

  it('are listed once each, however many there are', () => {
    const base = tensor(Float32Array.from({ length: 40 }, (_, i) => i));
    const views = Array.from({ length: 40 }, (_, i) => base.select(0, i));
    const { receiver } = send([views, base, [...views].reverse()]);
    const [[there, whole, back]] = receiver.values as [[Tensor[], Tensor, Tensor[]]];
    expect(there.map((t) => t.item())).toEqual(base.toArray());
    expect(back[0]).toBe(there[39]);
    expect(there.every((t) => t.storage === whole.storage)).toBe(true);
  });

  it('are written as they were at the call, whatever happens to them before the bytes leave', () => {
    const t = zeros([100_000]);
    const writer = new FrameWriter();
    const region = write(writer, t);
    t.add_(1);
    t.dispose();
    expect(region.bodies[0]?.bytes.every((byte) => byte === 0)).toBe(true);
    region.bodies[0]?.release();
    region.bodies[0]?.release();
  });

  it('let go of every storage when their message is dropped', () => {
    const large = zeros([100_000]);
    const small = tensor([1]);
    const empty = zeros([0]);
    const pins = (): number[] => [large, small, empty].map((t) => t.storage.ioRefs);
    const plan = planTensors([large, small, empty]);
    expect(pins()).toEqual([1, 1, 1]);
    const writer = new FrameWriter(new SlabPool(), { ...DEFAULT_WIRE_LIMITS, maxFrameBytes: 1 });
    writer.begin();
    expect(() => writer.endCall(fields, undefined, undefined, plan)).toThrow('limit: frame');
    plan.release();
    expect(pins()).toEqual([0, 0, 0]);
    const region = write(new FrameWriter(), [large, small, empty]);
    expect(pins()).toEqual([1, 0, 0]);
    for (const body of region.bodies) body.release();
    expect(pins()).toEqual([0, 0, 0]);
    small.dispose();
    expect(() => planTensors([large, small])).toThrow('disposed');
    expect(large.storage.ioRefs).toBe(0);
  });

  it('are not pinned for a message that found no memory for a copy of theirs', () => {
    const given = tensor([1, 2]);
    const [one, other] = [zeros([200, 200]), zeros([200, 200])].map((t) => t.matmul(t)) as [Tensor, Tensor];
    if (!one.storage.onDevice) return;
    const take = vi.spyOn(bufferPool, 'take').mockImplementation(() => {
      throw new RangeError('Array buffer allocation failed');
    });
    try {
      expect(() => planTensors([one])).toThrow('allocation failed');
      expect(() => planTensors([given, one, other])).toThrow('allocation failed');
      expect(() => planTensors([one.narrow(0, 0, 50)])).toThrow('allocation failed');
    } finally {
      take.mockRestore();
    }
    expect([given, one, other].map((t) => t.storage.ioRefs)).toEqual([0, 0, 0]);
    const plan = planTensors([one]);
    expect(plan.storages[0]?.bytes.byteLength).toBe(160_000);
    plan.release();
    expect(one.storage.onHost).toBe(false);
  });

  it('keep their memory while a piece of it is landing, however early they are given up', () => {
    const writer = new FrameWriter();
    const region = write(writer, zeros([1 << 20]));
    const head = bytesOf(writer);
    const receiver = new Receiver();
    const reader = new FrameReader(receiver);
    reader.phase = 'open';
    reader.push(head);
    writer.body(1, 0, 0, (region.bodies[0] as { bytes: Uint8Array }).bytes.subarray(0, 100_000), 0);
    const piece = bytesOf(writer);
    reader.push(piece.subarray(0, 50_000));
    receiver.incoming?.release();
    expect(receiver.pool.stats().freeBytes).toBe(0);
    expect(() => receiver.incoming?.place(0, 0, 1)).toThrow('no memory for storage 0');
    reader.close();
    expect(receiver.pool.stats().freeBytes).toBe(4 << 20);
    region.bodies[0]?.release();
  });

  it('may be fetched through a channel instead', () => {
    const t = zeros([100_000]);
    const plan = planTensors([t, tensor([1])]);
    plan.channels = new Map([[0, { channel: 'cma', locator: Uint8Array.of(1, 2, 3) }]]);
    const writer = new FrameWriter();
    writer.begin();
    const region = writer.endCall(fields, undefined, undefined, plan);
    expect(region.bodies).toEqual([]);
    let table: ReturnType<typeof readTensorTable> | undefined;
    const reader = new FrameReader({
      frame(header, bytes, _start, end) {
        const from = end - header.inlineLength - header.descriptorLength;
        table = readTensorTable(bytes, from, from + header.descriptorLength);
      },
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    reader.phase = 'open';
    reader.push(bytesOf(writer));
    expect(table?.storages).toEqual([
      { nbytes: 400_000, placement: 'channel', channel: 'cma', locator: Uint8Array.of(1, 2, 3) },
      { nbytes: 4, placement: 'inline', channel: undefined, locator: undefined },
    ]);
    plan.release();
  });
});

describe('a tensor table', () => {
  const cases: [string, string][] = [
    ['without a placement', '0a0208' + '04'],
    ['with an unknown placement', '0a040804' + '1009'],
    ['of a channel without a locator', '0a040804' + '1003'],
    ['with an unknown dtype', '12020863'],
    ['without a dtype', '1200'],
    ['with a sparse tensor in a sparse tensor', '12' + '0c' + '0801' + '4a08' + '0a06' + '08014a02' + '0a00'],
    ['with half a sparse tensor', '12060801' + '4a020a00'],
    ['that is cut', '1205080112'],
  ];
  it.each(cases)('is refused %s', (_name, hex) => {
    const bytes = new Uint8Array(Buffer.from(hex, 'hex'));
    expect(() => readTensorTable(bytes, 0, bytes.length)).toThrow(WireError);
  });

  it('is refused when it and the inline bytes do not agree, and before memory is taken', () => {
    const pool = new BufferPool();
    const table = { storages: [{ nbytes: 8000, placement: 'inline' as const }], tensors: [] };
    expect(() => new IncomingTensors(table, new Uint8Array(7999), 0, 7999, pool)).toThrow(
      '7999 bytes of inline storages instead of 8000',
    );
    expect(pool.stats()).toMatchObject({ hits: 0, misses: 0 });
  });
});

describe('BufferPool', () => {
  it('reuses by size class, and is bounded', () => {
    const pool = new BufferPool(8 << 20);
    const buffers = Array.from({ length: 6 }, () => pool.take((2 << 20) - 5));
    expect(buffers[0]?.buffer.byteLength).toBe(2 << 20);
    for (const buffer of buffers) pool.give(buffer);
    expect(pool.stats()).toMatchObject({ freeBytes: 8 << 20, freeBuffers: 4, misses: 6, hits: 0, dropped: 2 });
    expect(pool.take(1.5 * (1 << 20)).buffer.byteLength).toBe(2 << 20);
    expect(pool.stats().hits).toBe(1);
    pool.trim(0);
    expect(pool.stats().freeBytes).toBe(0);
  });
  it('lets the class go first that was unused for longest', () => {
    const pool = new BufferPool(6 << 20);
    const [a, b, c] = [pool.take(3 << 20), pool.take(2 << 20), pool.take(4 << 20)];
    pool.give(a);
    pool.give(b);
    pool.give(c);
    expect(pool.take(2 << 20).buffer).toBe(b.buffer);
    expect(pool.take(3 << 20).buffer).not.toBe(a.buffer);
  });
  it('lets go of what was unused between two sweeps', () => {
    const pool = new BufferPool();
    const [small, large] = [pool.take(5000), pool.take(3 << 20)];
    pool.give(small);
    pool.give(large);
    pool.sweep();
    expect(pool.stats().freeBuffers).toBe(2);
    pool.give(pool.take(5000));
    pool.sweep();
    expect(pool.stats()).toMatchObject({ freeBytes: 8192, freeBuffers: 1 });
    pool.sweep();
    expect(pool.stats()).toMatchObject({ freeBytes: 0, freeBuffers: 0, dropped: 2 });
  });
  it('never takes a buffer twice', () => {
    const pool = new BufferPool();
    const buffer = pool.take(5000);
    pool.give(buffer);
    expect(() => pool.give(buffer)).toThrow('given back twice');
    expect(pool.take(5000).buffer).toBe(buffer.buffer);
    expect(pool.take(5000).buffer).not.toBe(buffer.buffer);
  });
  it('takes nothing back that is not a whole buffer of its own', () => {
    const pool = new BufferPool();
    pool.give(new Uint8Array(5000));
    pool.give(new Uint8Array(new ArrayBuffer(8192), 8));
    pool.give(new Uint8Array(new SharedArrayBuffer(8192)));
    pool.give(new Uint8Array(10));
    expect(pool.stats().freeBuffers).toBe(0);
  });
});
