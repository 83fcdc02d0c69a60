/** @file Bare frames: the wire package's writer and reader over a socket, with nothing of an agent around them but, if wanted, a session. */
import type { Socket } from 'node:net';
import { Session } from '@backwire/rpc/internal';
import {
  FrameKind,
  FrameReader,
  FrameWriter,
  MessageType,
  type CallFields,
  type FrameHeader,
  type PendingWrite,
} from '@backwire/wire/internal';

/** What a frame holds that stands for an empty call, and for its answer. */
const EMPTY = Uint8Array.of(0x3a, 0);

/** As an agent has them, with a window that all calls of a block fit into. */
const SESSION = { windowBytes: 2 ** 25, windowFrames: 2 ** 18, ackFrames: 4_096, ackBytes: 2 ** 20, ackMs: 20 };

/** One end: frames of a tick go out in one write; each that arrives is told to `arrived`. */
export class FrameEnd {
  private readonly socket: Socket;
  private readonly writer = new FrameWriter();
  private readonly session: Session<PendingWrite> | undefined;
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

  constructor(socket: Socket, arrived: (id: number) => void, how: 'bare' | 'session') {
    this.socket = socket;
    if (how === 'session') {
      this.session = new Session<PendingWrite>(
        { resend: () => undefined, release: (segment) => segment.release() },
        SESSION,
      );
      this.session.linkUp({ received: 0, bodies: [] });
    }
    const reader = new FrameReader({
      frame: (header, _, start, end) => {
        if (this.isNew(header, end - start)) arrived(header.id);
      },
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    reader.phase = 'open';
    socket.on('data', (chunk: Buffer) => {
      reader.push(chunk);
      if (this.session?.ackAt() === 0) this.acknowledge(this.session);
    });
    socket.on('error', () => undefined);
  }

  send(kind: FrameKind, id: number): void {
    const { writer, fields, session } = this;
    writer.begin();
    writer.out.raw(EMPTY);
    fields.kind = kind;
    fields.callId = id;
    fields.seq = session === undefined ? fields.seq + 1 : session.draw();
    fields.ack = session?.lastReceived ?? 0;
    writer.endCall(fields);
    this.schedule();
  }

  private isNew(header: FrameHeader, bytes: number): boolean {
    const { session } = this;
    if (session === undefined) return true;
    session.acknowledged(header.ack);
    return header.seq !== 0 && session.arrived(header.seq, bytes, performance.now()) === 'deliver';
  }

  private acknowledge(session: Session<PendingWrite>): void {
    this.writer.frame(FrameKind.ACK, 0, undefined, 0, session.lastReceived);
    session.ackCarried(session.lastReceived);
    this.schedule();
  }

  private schedule(): void {
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
    if (this.session !== undefined) {
      // It is kept for a replay until the other end has acknowledged it.
      this.session.retain(write, write.bytes);
      this.session.ackCarried(this.session.lastReceived);
      return;
    }
    // The chunks are copied by nobody: they must last until they are written.
    this.socket.write('', () => write.release());
  };
}
