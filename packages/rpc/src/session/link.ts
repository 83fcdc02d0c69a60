/** @file One authenticated connection between two workers: from HELLO to frames. */
import {
  FrameKind,
  FrameReader,
  decodeProto,
  encodeProto,
  handshakeFrame,
  handshakeProto,
  protocolError,
  type FrameHeader,
  type FrameSink,
  type WireLimits,
} from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import type { Resume } from '../protocol/session.ts';
import type { ByteSink, Connection } from '../transports/transport.ts';

/** Who is told of what arrives on a link. A throw from any of these breaks the link. */
export interface LinkOwner {
  handshake(link: Link, step: NonNullable<handshakeProto.Handshake['step']>): void;
  resumed(link: Link, position: Resume): void;
  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void;
  body(header: FrameHeader): Uint8Array | undefined;
  bodyEnd(header: FrameHeader, landed: number): void;
  /** What one read brought has been dealt with. */
  batch(link: Link): void;
  /** The last event. */
  closed(link: Link, error: Error | undefined): void;
}

/**
 * States of a link: `handshake` (HELLO, WELCOME or REJECT are due), `resume` (both say where they stand), `open` (frames), `closed`.
 */
export type LinkState = 'handshake' | 'resume' | 'open' | 'closed';

export class Link implements ByteSink, FrameSink {
  state: LinkState = 'handshake';
  readonly connection: Connection;
  /** When the last byte came, by `performance.now()`. */
  heardAt = performance.now();
  private owner: LinkOwner;
  private readonly reader: FrameReader;
  private readonly limits: WireLimits;

  constructor(connection: Connection, owner: LinkOwner, limits: WireLimits) {
    this.connection = connection;
    this.owner = owner;
    this.limits = limits;
    this.reader = new FrameReader(this, limits);
  }

  /** Whether a message has begun to arrive and is not complete. */
  get receiving(): boolean {
    return this.reader.midFrame;
  }

  /** Starts to read. */
  start(): void {
    this.connection.attach(this);
  }

  /** Another owner is told from now on: the peer that a HELLO was from. */
  handTo(owner: LinkOwner): void {
    this.owner = owner;
  }

  sendHandshake(step: NonNullable<handshakeProto.Handshake['step']>): void {
    this.connection.write([this.handshakeFrame(step)]);
  }

  /** The frame that says so. */
  handshakeFrame(step: NonNullable<handshakeProto.Handshake['step']>): Uint8Array {
    return handshakeFrame(FrameKind.HANDSHAKE, encodeProto(handshakeProto.Handshake, { step }), this.limits);
  }

  /** The frame that says where this side stands; the peer's own position is due next. */
  resumeFrame(position: Resume): Uint8Array {
    this.state = 'resume';
    this.reader.phase = 'open';
    const bodies = position.bodies.map(({ seq, storage, bytes }) => ({ seq, storage, bytes }));
    const resume = encodeProto(handshakeProto.Resume, { received: position.received, bodies });
    return handshakeFrame(FrameKind.RESUME, resume, this.limits);
  }

  /** Says why not, and ends the connection. */
  refuse(code: string, message: string, retryAfterMs = 0): void {
    if (this.state === 'closed') return;
    this.sendHandshake({ $case: 'reject', value: { code, message, retryAfterMs } });
    this.state = 'closed';
    this.reader.close();
    this.connection.attach(undefined);
    this.connection.close();
  }

  /** Ends it now: nothing is delivered afterwards, and the owner is not told. */
  end(error?: Error): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.reader.close();
    this.connection.attach(undefined);
    this.connection.destroy(error);
  }

  /** Sends what was written and ends this direction. */
  finish(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.reader.close();
    this.connection.attach(undefined);
    this.connection.close();
  }

  // ByteSink

  nextBuffer(): Uint8Array {
    return this.reader.nextBuffer();
  }

  received(count: number): void {
    this.heardAt = performance.now();
    try {
      this.reader.received(count);
    } catch (error) {
      this.broken(error);
      return;
    }
    if (this.state !== 'closed') this.owner.batch(this);
  }

  closed(error?: Error): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.reader.close();
    this.owner.closed(this, error);
  }

  // FrameSink

  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    if (this.state === 'open') this.owner.frame(header, bytes, start, end);
    else if (this.state !== 'closed') this.preamble(header, bytes.slice(start, end));
  }

  body(header: FrameHeader): Uint8Array | undefined {
    if (this.state !== 'open') throw protocolError('a body before the session goes on');
    return this.owner.body(header);
  }

  bodyEnd(header: FrameHeader, landed: number): void {
    this.owner.bodyEnd(header, landed);
  }

  private preamble(header: FrameHeader, payload: Uint8Array): void {
    if (this.state === 'handshake') {
      const { step } = decodeProto(handshakeProto.Handshake, payload, 'handshake');
      if (header.kind !== FrameKind.HANDSHAKE || step === undefined) throw protocolError('a handshake was due');
      this.owner.handshake(this, step);
      return;
    }
    if (header.kind !== FrameKind.RESUME) throw protocolError('a RESUME was due');
    const { received, bodies } = decodeProto(handshakeProto.Resume, payload, 'resume');
    this.state = 'open';
    this.owner.resumed(this, { received, bodies: bodies });
  }

  /** What the peer sent breaks the protocol, or a defect of this side showed: one connection is lost, nothing else. */
  private broken(cause: unknown): void {
    if (this.state === 'closed') return;
    const text = cause instanceof Error ? cause.message : String(cause);
    const error = new RpcError(
      'protocol-error',
      `the connection to ${this.connection.remote} was broken off: ${text}`,
      { cause },
    );
    this.state = 'closed';
    this.reader.close();
    this.connection.attach(undefined);
    this.connection.destroy(error);
    this.owner.closed(this, error);
  }
}
