/** @file The attacker's end of one link to the agent that is fuzzed. */
import { FrameKind, FrameReader, FrameWriter, handshakeProto, type FrameHeader } from '@backwire/wire/internal';
import type { Connection } from '../src/transports/transport.ts';

export class Talk {
  /** Resolves with the last number that the agent has of this session; undefined when it refuses. */
  readonly welcomed: Promise<number | undefined>;
  /** 'alive' when the ping was answered, 'broken' when the agent hung up. */
  readonly ended: Promise<'alive' | 'broken'>;
  private readonly connection: Connection;

  constructor(connection: Connection, note: (header: FrameHeader) => void) {
    this.connection = connection;
    let welcome!: (received: number | undefined) => void;
    let end!: (how: 'alive' | 'broken') => void;
    this.welcomed = new Promise((resolve) => (welcome = resolve));
    this.ended = new Promise((resolve) => (end = resolve));
    let memory = new Uint8Array(0);
    const reader = new FrameReader({
      frame(header, bytes, start, at) {
        if (header.kind === FrameKind.HANDSHAKE) {
          const { step } = handshakeProto.Handshake.decode(bytes.slice(start, at));
          if (step?.$case === 'welcome') reader.phase = 'open';
          else welcome(undefined);
        } else if (header.kind === FrameKind.RESUME)
          welcome(handshakeProto.Resume.decode(bytes.slice(start, at)).received);
        else if (header.kind === FrameKind.PONG) end('alive');
        else note(header);
      },
      body: (header) => (memory = new Uint8Array(header.length)),
      bodyEnd: () => void memory,
    });
    connection.attach({
      nextBuffer: () => reader.nextBuffer(),
      received: (count) => reader.received(count),
      closed: () => {
        reader.close();
        welcome(undefined);
        end('broken');
      },
    });
  }

  send(fn: (writer: FrameWriter) => void): void {
    this.sendBytes(bytesOf(fn));
  }

  sendBytes(bytes: Uint8Array): void {
    this.connection.write([bytes]);
  }
}

/** What `fn` writes. */
export function bytesOf(fn: (writer: FrameWriter) => void): Uint8Array {
  const writer = new FrameWriter();
  fn(writer);
  const write = writer.flush();
  const bytes = Buffer.concat(write?.chunks ?? []);
  write?.release();
  writer.dispose();
  return bytes;
}
