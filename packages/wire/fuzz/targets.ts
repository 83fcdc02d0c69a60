/** @file Every decoder of this package as a function of bytes, with samples of what it accepts. */
import { type Tensor, sparseCooTensor, tensor } from '@backwire/tensor';
import type { FuzzTarget } from '@backwire/testing';
import {
  deserializeRequest,
  deserializeResponse,
  encodeValue,
  decodeValue,
  serializeRequest,
  serializeResponse,
  wireDeserialize,
  wireSerialize,
  writeWrappedPayload,
  type Command,
} from '../src/index.ts';
import {
  BufferPool,
  ByteWriter,
  DEFAULT_WIRE_LIMITS,
  FrameKind,
  FrameReader,
  FrameWriter,
  MessageType,
  SlabPool,
  ValueCodec,
  type WireLimits,
  controlProto,
  decodeProto,
  encodeProto,
  errorProto,
  frameName,
  frameTable,
  frameTensors,
  handshakeProto,
  planTensors,
  profilerProto,
  readHeaderTable,
  valueEnd,
  writeHeaderTable,
} from '../src/internal.ts';

/** Small enough that a decoder which respects them stays fast and small. */
const FUZZ_LIMITS: WireLimits = {
  ...DEFAULT_WIRE_LIMITS,
  maxFrameBytes: 1 << 20,
  maxBodyChunkBytes: 1 << 18,
  maxMessageBytes: 1 << 20,
  maxMaterialisedBytes: 1 << 22,
  maxValues: 10_000,
};

const VALUES: readonly unknown[] = [
  null,
  [1, -5, 0.5, 'text', 'é'.repeat(60), true, undefined, 2n ** 70n, -7n],
  { a: { b: [{ c: 1 }] }, __proto__x: 1 },
  JSON.parse('{"__proto__": {"c": 1}, "constructor": {"prototype": {"c": 1}}, "toString": 1}'),
  new Map<unknown, unknown>([
    [1, new Set(['a', 'b'])],
    ['k', new Date(5)],
  ]),
  [Uint8Array.of(1, 2, 3), new Float32Array(5), new BigInt64Array(2)],
  new TypeError('bad', { cause: new Error('worse') }),
  Array.from({ length: 40 }, (_, i) => i / 3),
  ['\ud800'],
  [new Uint8Array(70_000)],
];

/** A pool that refuses what the limits should have refused before. */
class StrictPool extends BufferPool {
  override take(nbytes: number): Uint8Array<ArrayBuffer> {
    if (nbytes > FUZZ_LIMITS.maxMessageBytes) throw new Error(`${nbytes} bytes taken before the limit was checked`);
    return super.take(nbytes);
  }
}

/** The decoders. Made once: samples need tensors. */
export function targets(): FuzzTarget[] {
  return [
    frames('frames', 'open'),
    frames('handshake', 'handshake'),
    values(),
    headerTable(),
    flat(),
    ...protobufs(),
    commands(),
  ];
}

function frames(name: string, phase: 'open' | 'handshake'): FuzzTarget {
  const codec = new ValueCodec<undefined>([], FUZZ_LIMITS);
  const pool = new StrictPool(1 << 22);
  const sink = {
    frame: (header: Parameters<typeof valueEnd>[0], bytes: Uint8Array, start: number, end: number): void => {
      if (header.kind < FrameKind.CALL || header.kind > FrameKind.STREAM_END) return;
      frameName(header, bytes, end);
      frameTable(header, bytes, end, FUZZ_LIMITS);
      const incoming = frameTensors(header, bytes, end, FUZZ_LIMITS, pool);
      const tensors = incoming?.tensors() ?? [];
      try {
        codec.read(bytes, start, valueEnd(header, end), tensors, undefined);
      } finally {
        for (const t of tensors) t.dispose();
      }
    },
    body: (header: { length: number; id: number }): Uint8Array | undefined =>
      header.id % 2 === 0 ? new Uint8Array(header.length) : undefined,
    bodyEnd: (): void => undefined,
  };
  return {
    name,
    samples: phase === 'open' ? frameSamples() : [handshakeSample()],
    run(bytes) {
      const reader = new FrameReader(sink, FUZZ_LIMITS, 2048);
      reader.phase = phase;
      reader.push(bytes);
      reader.close();
    },
  };
}

function frameSamples(): Uint8Array[] {
  const writer = new FrameWriter(new SlabPool(), FUZZ_LIMITS);
  const codec = new ValueCodec<undefined>([], FUZZ_LIMITS);
  const base = tensor([1, 2, 3, 4, 5, 6], { shape: [2, 3] });
  const sparse = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
  const samples: Uint8Array[] = [];
  for (const value of [...VALUES, [base, base.transpose(0, 1)], { s: sparse }]) {
    const tensors: Tensor[] = [];
    writer.begin();
    codec.write(writer.out, value, tensors, undefined);
    const fields = {
      kind: FrameKind.CALL,
      flags: 1,
      messageType: 0x102,
      seq: 9,
      ack: 8,
      callId: 77,
      fn: 3,
      remainingMs: 1000,
    };
    writer.endCall(
      fields,
      'some/function',
      [{ extension: 'rref', data: Uint8Array.of(1, 2, 3) }],
      planTensors(tensors),
    );
    writer.body(10, 0, 0, new Uint8Array(200).fill(3), 9);
    writer.idFrame(FrameKind.CREDIT, { id: 4, a: 5, b: 6, c: 7 }, 10, 9);
    writer.frame(FrameKind.CONTROL, MessageType.RREF_USER_DELETE, Uint8Array.of(1, 2), 11, 9);
    samples.push(taken(writer));
  }
  return samples;
}

function handshakeSample(): Uint8Array {
  const writer = new FrameWriter();
  writer.frame(FrameKind.HANDSHAKE, 0, new Uint8Array(300), 0, 0);
  return taken(writer);
}

function taken(writer: FrameWriter): Uint8Array {
  const write = writer.flush();
  const bytes = Uint8Array.from(Buffer.concat(write?.chunks ?? []));
  write?.release();
  return bytes;
}

function values(): FuzzTarget {
  const t = tensor([1]);
  const known = Object.getOwnPropertyNames(Object.prototype).length;
  return {
    name: 'values',
    samples: VALUES.map((value) => encodeValue(value).bytes),
    run(bytes) {
      decodeValue(bytes, [t]);
      if (Object.getOwnPropertyNames(Object.prototype).length !== known)
        throw new Error('Object.prototype was changed');
    },
  };
}

function headerTable(): FuzzTarget {
  const out = new ByteWriter();
  writeHeaderTable(out, [
    { extension: 'rref', data: Uint8Array.of(1, 2) },
    { extension: 'autograd', data: new Uint8Array(0) },
  ]);
  return { name: 'header table', samples: [out.finish()], run: (bytes) => void readHeaderTable(bytes, FUZZ_LIMITS) };
}

function flat(): FuzzTarget {
  const samples = [
    wireSerialize(new Uint8Array(5), [tensor([1, 2, 3]), tensor([1n], { dtype: 'int64' })]),
    wireSerialize(new Uint8Array(0), []),
  ];
  return {
    name: 'flat form',
    samples,
    run(bytes) {
      for (const t of wireDeserialize(bytes).tensors) t.dispose();
    },
  };
}

function protobufs(): FuzzTarget[] {
  const id = { worker: 1, incarnation: 2, local: 3 };
  const hello = { identity: handshakeProto.Identity.decode(new Uint8Array(0)) };
  hello.identity = {
    ...hello.identity,
    group: 'g',
    name: 'w',
    session: new Uint8Array(16),
    extensions: [{ name: 'rref', version: 1 }],
  };
  const samples = [
    encodeProto(handshakeProto.Handshake, { step: { $case: 'hello', value: hello } }),
    encodeProto(controlProto.RRefUserDelete, { rref: id, forks: [id, id] }),
    encodeProto(controlProto.FenceDone, { epoch: 3, dead: [{ worker: 1, incarnation: 2 }] }),
  ];
  const types = [
    handshakeProto.Handshake,
    handshakeProto.Resume,
    controlProto.RRefUserDelete,
    controlProto.FenceDone,
    controlProto.RRefForkAck,
    errorProto.Error,
    profilerProto.ProfilingResponse,
  ];
  return types.map((type, i) => ({
    name: `protobuf ${i}`,
    samples,
    run: (bytes: Uint8Array) => void decodeProto<unknown>(type, bytes, 'message'),
  }));
}

function commands(): FuzzTarget {
  const inner: Command = { kind: 'python-call', function: 'f', args: [1, 'x'] };
  const wrapped: Command = {
    kind: 'forward-autograd-req',
    contextId: 5n,
    messageId: 6n,
    fromWorkerId: 0,
    deviceMap: { a: 'b' },
    wrapped: inner,
  };
  const context = { contextId: 5n, incarnation: 3, pass: { worker: 1, incarnation: 2, number: 3 } };
  const start = { ...context, retainGraph: true, failed: [1], plan: [{ worker: 1, messageId: 2n }] };
  const failure = { code: 'cancelled', name: 'RpcError', message: 'x', peer: { id: 1, name: 'w1' } };
  const requests: Command[] = [
    wrapped,
    inner,
    {
      kind: 'forward-autograd-req',
      contextId: 5n,
      messageId: 6n,
      path: [1, 2],
      graph: true,
      reach: [],
      wrapped: inner,
    },
    { kind: 'backward-autograd-req', ...start, messageId: 4n, gradients: [null, null] },
    { kind: 'autograd-discover-req', ...start, messageIds: [1n, 2n] },
    { kind: 'autograd-abort', ...context, failure },
    { kind: 'cleanup-autograd-context-req', contextId: 5n, oldestLive: 9 },
    { kind: 'rref-user-delete', forkIds: [{ createdOn: 1, localId: 2n }] },
    { kind: 'fence-done', epoch: 1, dead: [{ worker: 1, incarnation: 2 }] },
  ];
  const messages = [
    ...requests.map(serializeRequest),
    serializeResponse({ kind: 'python-ret', value: [1] }),
    serializeResponse({ kind: 'backward-autograd-resp', failure }),
    serializeResponse({ kind: 'exception', message: 'x', code: 'cancelled', cause: { message: 'y' } }),
  ];
  const types = Object.values(MessageType);
  return {
    name: 'commands',
    samples: messages
      .map((message) => Uint8Array.of(types.indexOf(message.type as never), ...message.payload))
      .concat([Uint8Array.of(0, ...writeWrappedPayload(new Uint8Array(3), new Uint8Array(4)))]),
    run(bytes) {
      const type = types[(bytes[0] ?? 0) % types.length] as number;
      const message = { type, id: 1n, payload: bytes.subarray(1), tensors: [] };
      if ((type & 0x200) !== 0) deserializeResponse(message);
      else deserializeRequest(message);
    },
  };
}
