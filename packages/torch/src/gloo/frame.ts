/** @file The messages of a Gloo connection: a head of 48 bytes, and the data of the one kind that has any. */
import { protocolError } from '@backwire/wire/internal';
import type { PipeProgram } from '../pipe/program.ts';

/** What a message says. */
export const GlooOp = { DATA: 1, SEND_READY: 2, RECEIVE_READY: 3 } as const;

const HEAD_BYTES = 48;

/** What a connection is told of. Called in order. */
export interface GlooSink {
  /** The other side will send `length` bytes in this slot, or waits for them. */
  ready(kind: 'send' | 'receive', slot: bigint, length: number): void;
  /** `length` bytes come in this slot: the memory for them. Throws when nobody waits for them. */
  memoryFor(slot: bigint, length: number): Uint8Array;
  data(slot: bigint, bytes: Uint8Array): void;
}

/** A message without data, or the head of one with `length` bytes behind it. */
export function glooHead(opcode: number, slot: bigint, length: number): Uint8Array {
  const head = new Uint8Array(HEAD_BYTES);
  const view = new DataView(head.buffer);
  const total = HEAD_BYTES + (opcode === GlooOp.DATA ? length : 0);
  [BigInt(total), BigInt(opcode), slot, 0n, BigInt(length), 0n].forEach((field, i) =>
    view.setBigUint64(8 * i, field, true),
  );
  return head;
}

/** Reads the messages of one connection, behind its sequence number. */
export function* glooProgram(sink: GlooSink): PipeProgram {
  for (;;) {
    const head = yield HEAD_BYTES;
    const view = new DataView(head.buffer, head.byteOffset, HEAD_BYTES);
    const field = (i: number): bigint => view.getBigUint64(8 * i, true);
    const [total, opcode, slot, length] = [field(0), field(1), field(2), field(4)];
    if (length > BigInt(Number.MAX_SAFE_INTEGER)) throw protocolError(`a message of ${length} bytes`);
    const data = opcode === BigInt(GlooOp.DATA) ? length : 0n;
    if (total !== BigInt(HEAD_BYTES) + data) throw protocolError(`a message of ${total} bytes with ${length} in it`);
    switch (Number(opcode)) {
      case GlooOp.SEND_READY:
        sink.ready('send', slot, Number(length));
        break;
      case GlooOp.RECEIVE_READY:
        sink.ready('receive', slot, Number(length));
        break;
      case GlooOp.DATA: {
        const memory = sink.memoryFor(slot, Number(length));
        if (length > 0n) yield memory;
        sink.data(slot, memory);
        break;
      }
      default:
        throw protocolError(`a message of kind ${opcode}`);
    }
  }
}
