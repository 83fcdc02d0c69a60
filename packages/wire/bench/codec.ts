/** @file Nanoseconds per frame and per value: `npm run bench -w @backwire/wire`. One thread, warm, medians of rounds. */
import { type Tensor, tensor } from '@backwire/tensor';
import {
  ByteWriter,
  FrameKind,
  FrameReader,
  FrameWriter,
  ValueCodec,
  frameTensors,
  planTensors,
  valueEnd,
} from '../src/internal.ts';

const codec = new ValueCodec<undefined>();
const CASES: readonly [string, unknown][] = [
  ['no arguments', []],
  ['two numbers', [1, 2.5]],
  ['small object and list', [{ id: 12, name: 'step', ok: true, scale: 0.5 }, [1, 2, 3]]],
  ['string of 200', ['x'.repeat(200)]],
  ['64 numbers', [Array.from({ length: 64 }, (_, i) => i / 3)]],
  ['1 KiB of bytes', [new Uint8Array(1024)]],
];

/** Median nanoseconds of one call of `fn`, over rounds of about 20 ms. */
function time(fn: () => void): number {
  let count = 1000;
  for (let warm = performance.now(); performance.now() - warm < 150;) for (let i = 0; i < count; i++) fn();
  const rounds: number[] = [];
  for (let r = 0; r < 15; r++) {
    const began = performance.now();
    for (let i = 0; i < count; i++) fn();
    const took = performance.now() - began;
    rounds.push((took * 1e6) / count);
    if (took < 20) count = Math.ceil((count * 20) / Math.max(took, 1));
  }
  return rounds.sort((a, b) => a - b)[rounds.length >> 1] as number;
}

function row(name: string, ...numbers: number[]): void {
  console.log(name.padEnd(24), ...numbers.map((n) => n.toFixed(0).padStart(9)));
}

console.log(''.padEnd(24), '   encode    decode  + frame   frame read and decoded');
for (const [name, value] of CASES) {
  const out = new ByteWriter(4096);
  const tensors: Tensor[] = [];
  const encode = time(() => {
    out.pos = 0;
    codec.write(out, value, tensors, undefined);
  });
  const bytes = out.finish();
  const decode = time(() => void codec.read(bytes, 0, bytes.length, tensors, undefined));

  const writer = new FrameWriter();
  const fields = {
    kind: FrameKind.CALL,
    flags: 0,
    messageType: 0x102,
    seq: 1,
    ack: 1,
    callId: 1,
    fn: 1,
    remainingMs: 60_000,
  };
  let written = 0;
  const frame = time(() => {
    fields.seq++;
    writer.begin();
    codec.write(writer.out, value, tensors, undefined);
    writer.endCall(fields);
    if (++written % 64 === 0) writer.flush()?.release();
  });

  writer.flush()?.release();
  for (let i = 0; i < 64; i++) {
    writer.begin();
    codec.write(writer.out, value, tensors, undefined);
    writer.endCall(fields);
  }
  const batch = Buffer.concat(writer.flush()?.chunks ?? []);
  const reader = new FrameReader({
    frame: (_header, data, start, end) => void codec.read(data, start, end, tensors, undefined),
    body: () => undefined,
    bodyEnd: () => undefined,
  });
  reader.phase = 'open';
  const read = time(() => reader.push(batch)) / 64;
  row(name, encode, decode, frame, read);
}

console.log('\n'.padEnd(25), '   plan and write   read and build');
for (const [name, tensors] of [
  ['4 floats', [tensor([1, 2, 3, 4])]],
  ['1 KiB of floats', [tensor(new Float32Array(256))]],
  ['8 times 4 floats', Array.from({ length: 8 }, () => tensor([1, 2, 3, 4]))],
] as const) {
  const fields = {
    kind: FrameKind.CALL,
    flags: 0,
    messageType: 0x102,
    seq: 1,
    ack: 1,
    callId: 1,
    fn: 1,
    remainingMs: 60_000,
  };
  const writer = new FrameWriter();
  let written = 0;
  const one = (): void => {
    const list: Tensor[] = [];
    writer.begin();
    codec.write(writer.out, tensors, list, undefined);
    writer.endCall(fields, undefined, undefined, planTensors(list));
    if (++written % 64 === 0) writer.flush()?.release();
  };
  const write = time(one);
  writer.flush()?.release();
  written = 0;
  for (let i = 0; i < 63; i++) one();
  const batch = Buffer.concat(writer.flush()?.chunks ?? []);
  const reader = new FrameReader({
    frame(header, data, start, end) {
      const list = frameTensors(header, data, end)?.tensors() ?? [];
      codec.read(data, start, valueEnd(header, end), list, undefined);
      for (const t of list) t.dispose();
    },
    body: () => undefined,
    bodyEnd: () => undefined,
  });
  reader.phase = 'open';
  row(name, write, time(() => reader.push(batch)) / 63);
}
