/** @file Bare frames: the wire package's writer and reader over a socket, with nothing of an agent around them. */
import type { Socket } from 'node:net';
import { FrameKind, FrameReader, FrameWriter, MessageType, type CallFields } from '@backwire/wire/internal';

/** What a frame holds that stands for an empty call, and for its answer. */
const EMPTY = Uint8Array.of(0x3a, 0);

/** One end: frames of a tick go out in one write; each that arrives is told to `arrived`. */
export class FrameEnd {
  private readonly socket: Socket;
  private readonly writer = new FrameWriter();
  private scheduled = false;
  private readonly fields: CallFields = {
    kind: FrameKind.CALL,
    flags: 0,
    messageType: MessageType.PYTHON_CALL,
    seq: 0,
    ack: 0,
    callId: 0,
    fn: 1,
    remainingMs: 60_000,
  };

  constructor(socket: Socket, arrived: (id: number) => void) {
    this.socket = socket;
    const reader = new FrameReader({
      frame: (header) => arrived(header.id),
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    reader.phase = 'open';
    socket.on('data', (chunk: Buffer) => reader.push(chunk));
    socket.on('error', () => undefined);
  }

  send(kind: FrameKind, id: number): void {
    const { writer, fields } = this;
    writer.begin();
    writer.out.raw(EMPTY);
    fields.kind = kind;
    fields.callId = id;
    fields.seq++;
    writer.endCall(fields);
    if (this.scheduled) return;
    this.scheduled = true;
    process.nextTick(this.flush);
  }

  private readonly flush = (): void => {
    this.scheduled = false;
    const write = this.writer.flush();
    if (write === undefined) return;
    this.socket.cork();
    for (const chunk of write.chunks) this.socket.write(chunk);
    this.socket.uncork();
    // The chunks are copied by nobody: they must last until they are written.
    this.socket.write('', () => write.release());
  };
}
