/** @file Frames and the bytes that stand for them. The bytes are the protocol: a change here breaks peers. */
import { tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  FrameFlag,
  FrameHeader,
  FrameKind,
  FrameReader,
  FrameWriter,
  MessageType,
  frameName,
  frameTable,
  frameTensors,
  planTensors,
  valueEnd,
} from '../internal.ts';

const fields = { kind: FrameKind.CALL, flags: 0, messageType: 0x102, seq: 1, ack: 2, callId: 3, fn: 4, remainingMs: 5 };

interface Row {
  readonly name: string;
  write(writer: FrameWriter): void;
  readonly hex: string;
  readonly header: Partial<FrameHeader>;
}

const u53 = (low: string, high = '00000000'): string => low + high;
const rows: Row[] = [
  {
    name: 'an acknowledgement',
    write: (writer) => writer.frame(FrameKind.ACK, 0, undefined, 0, 0x01020304),
    hex: '0d000000' + '00000000' + u53('00000000') + u53('04030201'),
    header: { kind: FrameKind.ACK, seq: 0, ack: 0x01020304, length: 0 },
  },
  {
    name: 'a handshake',
    write: (writer) => writer.frame(FrameKind.HANDSHAKE, 0, Uint8Array.of(0xaa, 0xbb), 0, 0),
    hex: '01000000' + '02000000' + u53('00000000') + u53('00000000') + 'aabb',
    header: { kind: FrameKind.HANDSHAKE, length: 2 },
  },
  {
    name: 'a control message',
    write: (writer) => writer.frame(FrameKind.CONTROL, MessageType.RREF_USER_DELETE, Uint8Array.of(7), 2 ** 32 + 9, 8),
    hex: '09000b01' + '01000000' + u53('09000000', '01000000') + u53('08000000') + '07',
    header: { kind: FrameKind.CONTROL, messageType: 0x10b, seq: 2 ** 32 + 9, ack: 8, length: 1 },
  },
  {
    name: 'a cancel',
    write: (writer) => writer.idFrame(FrameKind.CANCEL, { id: 2 ** 53 - 1 }, 6, 7),
    hex:
      '07000000' +
      '00000000' +
      u53('06000000') +
      u53('07000000') +
      u53('ffffffff', 'ffff1f00') +
      '00000000' +
      '00000000' +
      u53('00000000'),
    header: { kind: FrameKind.CANCEL, id: 2 ** 53 - 1, seq: 6 },
  },
  {
    name: 'a credit',
    write: (writer) => writer.idFrame(FrameKind.CREDIT, { id: 0, a: 100, c: 2 ** 33 }, 0, 0),
    hex:
      '08000000' +
      '00000000' +
      u53('00000000').repeat(2) +
      u53('00000000') +
      '64000000' +
      '00000000' +
      u53('00000000', '02000000'),
    header: { kind: FrameKind.CREDIT, a: 100, c: 2 ** 33 },
  },
  {
    name: 'a call without arguments or deadline',
    write: (writer) => {
      writer.begin();
      writer.endCall({ ...fields, remainingMs: -1, flags: FrameFlag.ONEWAY });
    },
    hex:
      '02010201' +
      '00000000' +
      u53('01000000') +
      u53('02000000') +
      u53('03000000') +
      '04000000' +
      'ffffffff' +
      '00000000'.repeat(3) +
      '0000' +
      '0000',
    header: { kind: FrameKind.CALL, flags: 1, messageType: 0x102, id: 3, fn: 4, remainingMs: -1 },
  },
  {
    name: 'a call with every section',
    write: (writer) => {
      writer.begin();
      writer.out.raw(Uint8Array.of(0x68, 0));
      writer.endCall(fields, 'f', [{ extension: 'x', data: Uint8Array.of(9) }], planTensors([tensor([1])]));
    },
    hex:
      '02000201' +
      '20000000' +
      u53('01000000') +
      u53('02000000') +
      u53('03000000') +
      '04000000' +
      '05000000' +
      '09000000' +
      '10000000' +
      '04000000' +
      '0100' +
      '0100' +
      '6800' +
      '66' +
      '0a8600' +
      '0a0178' +
      '120109' +
      '0a8400' +
      '08041001' +
      '128600' +
      '0801' +
      '128100' +
      '01' +
      '0000803f',
    header: {
      length: 32,
      tableLength: 9,
      descriptorLength: 16,
      inlineLength: 4,
      tensorCount: 1,
      nameLength: 1,
      remainingMs: 5,
    },
  },
];

function bytesOf(writer: FrameWriter): Uint8Array {
  const pending = writer.flush();
  const bytes = Uint8Array.from(Buffer.concat(pending?.chunks ?? []));
  pending?.release();
  return bytes;
}

describe('frame bytes', () => {
  it.each(rows.map((row) => [row.name, row] as const))('write %s', (_name, row) => {
    const writer = new FrameWriter();
    row.write(writer);
    expect(Buffer.from(bytesOf(writer)).toString('hex')).toBe(row.hex);
  });

  it.each(rows.map((row) => [row.name, row] as const))('read %s', (_name, row) => {
    const seen: FrameHeader[] = [];
    const reader = new FrameReader({
      frame: (header) => void seen.push(Object.assign(new FrameHeader(), header)),
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    if (row.header.kind !== FrameKind.HANDSHAKE) reader.phase = 'open';
    reader.push(Uint8Array.from(Buffer.from(row.hex, 'hex')));
    expect(seen.length).toBe(1);
    expect(seen[0]).toMatchObject(row.header);
  });

  it('are cut into the sections that were written', () => {
    const writer = new FrameWriter();
    (rows.at(-1) as Row).write(writer);
    let checked = false;
    const reader = new FrameReader({
      frame(header, bytes, start, end) {
        expect([...bytes.subarray(start, valueEnd(header, end))]).toEqual([0x68, 0]);
        expect(frameName(header, bytes, end)).toBe('f');
        expect(frameTable(header, bytes, end)).toEqual([{ extension: 'x', data: Uint8Array.of(9) }]);
        expect(frameTensors(header, bytes, end)?.tensors()[0]?.toArray()).toEqual([1]);
        checked = true;
      },
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    reader.phase = 'open';
    reader.push(bytesOf(writer));
    expect(checked).toBe(true);
  });

  it('have a header of 24 and 24 for a piece of a storage, then the piece as it lies', () => {
    const writer = new FrameWriter();
    const piece = Uint8Array.of(1, 2, 3);
    writer.body(10, 2, 2 ** 32, piece, 4, FrameFlag.LAST);
    const pending = writer.flush();
    expect(pending?.chunks[1]).toBe(piece);
    expect(Buffer.from(pending?.chunks[0] ?? []).toString('hex')).toBe(
      '0a200000' +
        '03000000' +
        u53('00000000') +
        u53('04000000') +
        u53('0a000000') +
        '02000000' +
        '00000000' +
        u53('00000000', '01000000'),
    );
  });
});
