/** @file The listening side of pipes: learns who calls, answers the offer, and gives further connections to the pipes that await them. */
import { checkLimit, protocolError } from '@backwire/wire/internal';
import { answerTo, chosenOf, isPlain } from './handshake.ts';
import { readBrochure, readPacket, writeBrochureAnswer } from './packets.ts';
import { Pipe, type PipeConnection, type PipeOptions, type PipePort } from './pipe.ts';
import { frame, framed, type PipeProgram } from './program.ts';

export interface ListenerPort {
  /** Whether a worker of this name may open a pipe: an error says why not. */
  admit(name: string): Error | undefined;
  /** A pipe of that worker is opening; what it has to tell goes to the returned port. */
  opening(name: string, pipe: Pipe): PipePort;
  /** A number below 2^53 by which a connection is recognised, and which nobody guesses. */
  registration(): number;
}

interface Awaited {
  readonly pipe: Pipe;
  readonly use: 'reply' | 'channel';
}

/** All pipes that are opened to one address. */
export class PipeListener {
  private readonly address: string;
  private readonly options: PipeOptions;
  private readonly port: ListenerPort;
  private readonly awaited = new Map<number, Awaited>();

  /** `address` is where diallers find this listener: 'host:port'. */
  constructor(address: string, options: PipeOptions, port: ListenerPort) {
    this.address = address;
    this.options = options;
    this.port = port;
  }

  /** How many connections of pipes that are opening have not come. */
  get awaitedConnections(): number {
    return this.awaited.size;
  }

  /**
   * A connection came: what is to run over its bytes. `belongs` is called once, with the pipe that the connection is part of: from then
   * on its end is the pipe's end. Until then a failure ends the connection alone.
   */
  *accept(connection: PipeConnection, belongs: (pipe: Pipe) => void): PipeProgram {
    const { limits } = this.options;
    const packet = readPacket(yield* frame(limits.maxHandshakeBytes, 'a packet'), limits);
    if (packet.kind === 'requested') yield* this.claimed(packet.registration, connection, belongs);
    else yield* this.opened(packet.name, connection, belongs);
  }

  private *opened(name: string, connection: PipeConnection, belongs: (pipe: Pipe) => void): PipeProgram {
    const { limits } = this.options;
    const refusal = this.port.admit(name);
    if (refusal !== undefined) throw refusal;
    const offer = readBrochure(yield* frame(limits.maxHandshakeBytes, 'an offer'), limits);
    const chosen = chosenOf(offer, this.options.channels);
    const plain = isPlain(chosen);
    if (!plain) checkLimit('connections that are awaited', this.awaited.size + 2, limits.maxAwaitedConnections);
    const relay = new Relay();
    const pipe = new Pipe(this.options, relay);
    relay.ended = () => this.forget(pipe);
    relay.port = this.port.opening(name, pipe);
    belongs(pipe);
    const awaited = plain
      ? undefined
      : { reply: this.register({ pipe, use: 'reply' }), channel: this.register({ pipe, use: 'channel' }) };
    connection.write([framed(writeBrochureAnswer(answerTo(this.address, chosen, awaited)))]);
    yield* pipe.run(connection, plain);
  }

  /** What a closed pipe still awaits never comes. */
  private forget(pipe: Pipe): void {
    for (const [registration, awaited] of this.awaited) if (awaited.pipe === pipe) this.awaited.delete(registration);
  }

  private register(awaited: Awaited): number {
    const registration = this.port.registration();
    if (this.awaited.has(registration)) throw new Error('invariant: a registration that is taken');
    this.awaited.set(registration, awaited);
    return registration;
  }

  private *claimed(registration: number, connection: PipeConnection, belongs: (pipe: Pipe) => void): PipeProgram {
    const awaited = this.awaited.get(registration);
    if (awaited === undefined) throw protocolError('a connection that nobody asked for');
    this.awaited.delete(registration);
    const { pipe, use } = awaited;
    belongs(pipe);
    if (use === 'reply') {
      pipe.attachReplies(connection);
      yield* pipe.replyProgram();
    } else {
      pipe.attachChannel(connection);
      yield* pipe.channelProgram();
    }
  }
}

/** A pipe's port, which is known only after the pipe. */
class Relay implements PipePort {
  port: PipePort | undefined;
  ended: (() => void) | undefined;

  message(message: Parameters<PipePort['message']>[0]): void {
    this.port?.message(message);
  }

  closed(error: Error | undefined): void {
    this.ended?.();
    this.port?.closed(error);
  }
}
