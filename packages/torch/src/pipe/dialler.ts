/** @file The dialling side of a pipe: says who it is and what it offers, and opens the connections that the listener asks for. */
import type { TorchLimits } from '../limits.ts';
import { agreedIn, brochureOf, type Agreed } from './handshake.ts';
import { readBrochureAnswer, writeBrochure, writePacket, type Brochure } from './packets.ts';
import { Pipe, type PipeConnection, type PipeOptions, type PipePort } from './pipe.ts';
import { frame, framed, type PipeProgram } from './program.ts';

export interface DiallerPort extends PipePort {
  /** Dial this address twice: report the connections as `reply` and `channel`, or a failure as the pipe's. Not asked of every pipe. */
  dial(address: string): void;
}

/** A pipe that is being dialled. Messages may be sent at once; they wait for the connections. */
export class PipeDialler {
  readonly pipe: Pipe;
  private readonly name: string;
  private readonly limits: TorchLimits;
  private readonly offer: Brochure;
  private readonly port: DiallerPort;
  private agreed: Agreed | undefined;

  /** `name` is this worker's, by which the listener knows who calls. */
  constructor(name: string, options: PipeOptions, port: DiallerPort) {
    this.pipe = new Pipe(options, port);
    this.name = name;
    this.limits = options.limits;
    this.offer = brochureOf(options.channels);
    this.port = port;
  }

  /**
   * What is to be said on a connection that came when nobody wants it any more, before it is closed: torch's listener takes no
   * connections any more, from nobody, after one that closed without a word.
   */
  farewell(use: 'first' | 'reply' | 'channel'): Uint8Array {
    const { name, agreed } = this;
    if (use === 'first' || agreed === undefined) return framed(writePacket({ kind: 'spontaneous', name }));
    return framed(writePacket({ kind: 'requested', registration: agreed[use] }));
  }

  /** The first connection is there: what is to run over the bytes that come on it. */
  *first(connection: PipeConnection): PipeProgram {
    const packet = framed(writePacket({ kind: 'spontaneous', name: this.name }));
    connection.write([packet, framed(writeBrochure(this.offer))]);
    const content = yield* frame(this.limits.maxHandshakeBytes, 'the answer to an offer');
    this.agreed = agreedIn(readBrochureAnswer(content, this.limits), this.offer);
    if (this.agreed !== undefined) this.port.dial(this.agreed.address);
    yield* this.pipe.run(connection, this.agreed === undefined);
  }

  /** The connection for replies is there. */
  reply(connection: PipeConnection): PipeProgram {
    this.request(connection, 'reply');
    this.pipe.attachReplies(connection);
    return this.pipe.replyProgram();
  }

  /** The connection for storages is there. */
  channel(connection: PipeConnection): PipeProgram {
    this.request(connection, 'channel');
    this.pipe.attachChannel(connection);
    return this.pipe.channelProgram();
  }

  private request(connection: PipeConnection, use: 'reply' | 'channel'): void {
    if (this.agreed === undefined) throw new Error('invariant: a connection that nobody asked for');
    connection.write([framed(writePacket({ kind: 'requested', registration: this.agreed[use] }))]);
  }
}
