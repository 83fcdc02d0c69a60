/** @file One open pipe, of either side: messages over a descriptor connection, their storages over a channel connection or behind them. */
import { bufferPool, protocolError } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import type { IncomingMessage, PipeMemory } from './message.ts';
import { checkMessage, framesOf, plainFrames, type OutgoingMessage } from './outgoing.ts';
import { readPlain } from './plain.ts';
import { CPU, readDescriptor, type PipeDescriptor } from './packets.ts';
import { HEAD_BYTES, frame, lengthIn, type PipeProgram } from './program.ts';

/** A connection as a pipe needs it. Bytes come through the programs. */
export interface PipeConnection {
  /** Sends the chunks in order; they stay unchanged until `onFlushed`, which is called once. Never throws. */
  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void;
  close(): void;
  destroy(error?: Error): void;
}

/** What a pipe tells its shell. Called synchronously, from inside an event. */
export interface PipePort {
  message(message: IncomingMessage): void;
  /** The last event: an error that ended the pipe, or undefined where it was closed in good order. */
  closed(error: Error | undefined): void;
}

export interface PipeOptions {
  readonly limits: TorchLimits;
  /** @default the pool of this process */
  readonly memory?: PipeMemory | undefined;
  /** The channels that it may have. @default all */
  readonly channels?: readonly string[] | undefined;
}

/** A message whose storages have not all come. */
interface Waiting {
  readonly message: IncomingMessage & { readonly storages: Uint8Array[] };
  readonly sizes: readonly number[];
}

const PAYLOADS = 4;
const TYPE_BYTES = 4;
const ID_BYTES = 8;

/**
 * States: *open* from the start, since what is sent before a connection is there waits for it; *closed*, final. The two connections are
 * independent: descriptors and storages meet in the order in which they were sent. A *plain* pipe has one connection for both. A pipe
 * whose framing breaks is closed as a whole.
 */
export class Pipe {
  private readonly limits: TorchLimits;
  private readonly memory: PipeMemory;
  private readonly port: PipePort;
  private readonly connections: PipeConnection[] = [];
  private descriptors: PipeConnection | undefined;
  private readonly channel = new Outlet();
  private plain = false;
  /** What was sent before it was known how. */
  private readonly early: { readonly message: OutgoingMessage; readonly flushed: (error?: Error) => void }[] = [];
  private readonly waiting: Waiting[] = [];
  private arrived: Uint8Array[] = [];
  /** Bytes of storages that no message has yet, and of messages that wait. */
  private held = 0;
  private over = false;

  constructor(options: PipeOptions, port: PipePort) {
    this.limits = options.limits;
    this.memory = options.memory ?? bufferPool;
    this.port = port;
  }

  get closed(): boolean {
    return this.over;
  }

  /** Whether the connections that carry messages are there. */
  get complete(): boolean {
    return this.descriptors !== undefined && (this.plain || this.channel.connected);
  }

  /** The connection of descriptors and payloads is there, and in a plain pipe of storages: the program over what it receives. */
  run(connection: PipeConnection, plain: boolean): PipeProgram {
    this.connections.push(connection);
    this.descriptors = connection;
    this.plain = plain;
    for (const { message, flushed } of this.early.splice(0)) this.put(connection, message, flushed);
    return plain ? this.plainProgram() : this.descriptorProgram();
  }

  /** The connection of storages is there. */
  attachChannel(connection: PipeConnection): void {
    this.connections.push(connection);
    this.channel.attach(connection);
  }

  /** The connection for replies to descriptors, which stays silent: every tensor says where it goes. */
  attachReplies(connection: PipeConnection): void {
    this.connections.push(connection);
  }

  /**
   * Sends a message; `flushed` is called once, when its memory may change: it is copied or written, or never will be.
   * @throws WireError 'limit' for a message that is too large.
   */
  send(message: OutgoingMessage, flushed: (error?: Error) => void): void {
    if (this.over) return flushed(new Error('the pipe is closed'));
    checkMessage(message, this.limits);
    if (this.descriptors === undefined) this.early.push({ message, flushed });
    else this.put(this.descriptors, message, flushed);
  }

  private put(connection: PipeConnection, message: OutgoingMessage, flushed: (error?: Error) => void): void {
    const { descriptors, storages, copied } = this.plain ? plainFrames(message) : framesOf(message);
    if (copied) {
      connection.write(descriptors);
      if (storages.length > 0) this.channel.write(storages);
      return flushed();
    }
    if (storages.length === 0) return connection.write(descriptors, flushed);
    let left = 2;
    let failure: Error | undefined;
    const done = (error?: Error): void => {
      failure ??= error;
      if (--left === 0) flushed(failure);
    };
    connection.write(descriptors, done);
    this.channel.write(storages, done);
  }

  /** Ends the pipe; harmless when repeated. */
  fail(error: Error | undefined): void {
    if (this.over) return;
    this.over = true;
    for (const connection of this.connections) {
      if (error === undefined) connection.close();
      else connection.destroy(error);
    }
    const reason = error ?? new Error('the pipe is closed');
    for (const { flushed } of this.early.splice(0)) flushed(reason);
    this.channel.fail(reason);
    for (const storage of this.arrived) this.memory.give(storage);
    for (const { message } of this.waiting) for (const storage of message.storages) this.memory.give(storage);
    this.arrived = [];
    this.waiting.length = 0;
    this.port.closed(error);
  }

  /** Reads whole messages. */
  private *plainProgram(): PipeProgram {
    for (;;) this.port.message(yield* readPlain(this.limits, this.memory));
  }

  /** Reads messages without their storages. */
  *descriptorProgram(): PipeProgram {
    for (;;) {
      const descriptor = readDescriptor(yield* frame(this.limits.maxDescriptorBytes, 'a descriptor'), this.limits);
      const sizes = this.sizesOf(descriptor);
      const [, , bodyBytes, tableBytes] = descriptor.payloads.map(({ nbytes }) => nbytes) as [
        number,
        number,
        number,
        number,
      ];
      const payloads = new Uint8Array(PAYLOADS * HEAD_BYTES + TYPE_BYTES + ID_BYTES + bodyBytes + tableBytes);
      yield payloads;
      this.expect(payloads, bodyBytes, tableBytes, sizes);
    }
  }

  /** Reads storages. */
  *channelProgram(): PipeProgram {
    const { maxMessageBytes } = this.limits;
    for (;;) {
      const length = lengthIn(yield HEAD_BYTES);
      if (length === 0) throw protocolError('a storage of no bytes, which is not sent');
      if (length > maxMessageBytes)
        throw protocolError(`a storage of ${length} bytes, over the limit of ${maxMessageBytes}`);
      this.hold(length);
      const storage = this.memory.take(length);
      yield storage;
      this.arrived.push(storage);
      this.deliver();
    }
  }

  /** The connection of replies: nothing is expected there. */
  *replyProgram(): PipeProgram {
    yield 1;
    throw protocolError('bytes on the connection for replies');
  }

  /** Checks a descriptor; the sizes of its storages. */
  private sizesOf({ payloads, tensors }: PipeDescriptor): number[] {
    const { maxBodyBytes, maxTableBytes, maxMessageBytes } = this.limits;
    if (payloads.length !== PAYLOADS) throw protocolError(`a message of ${payloads.length} payloads`);
    const most = [TYPE_BYTES, ID_BYTES, maxBodyBytes, maxTableBytes];
    payloads.forEach(({ nbytes }, i) => {
      if (nbytes > (most[i] as number) || (i < 2 && nbytes !== most[i]))
        throw protocolError(`payload ${i} of ${nbytes} bytes`);
    });
    let total = payloads.reduce((sum, { nbytes }) => sum + nbytes, 0);
    return tensors.map(({ nbytes, target }) => {
      if (target === undefined || target.type !== CPU.type || target.index !== CPU.index)
        throw protocolError(`a storage for ${target === undefined ? 'no device' : `${target.type}:${target.index}`}`);
      total += nbytes;
      if (total > maxMessageBytes)
        throw protocolError(`a message of ${total} bytes, over the limit of ${maxMessageBytes}`);
      return nbytes;
    });
  }

  private expect(payloads: Uint8Array, bodyBytes: number, tableBytes: number, sizes: readonly number[]): void {
    const view = new DataView(payloads.buffer);
    let at = 0;
    const payload = (length: number): number => {
      const found = Number(view.getBigUint64(at, true));
      if (found !== length) throw protocolError(`a payload of ${found} bytes that was announced with ${length}`);
      at += HEAD_BYTES + length;
      return at - length;
    };
    const type = view.getInt32(payload(TYPE_BYTES), true);
    const id = Number(view.getBigInt64(payload(ID_BYTES), true));
    if (!Number.isSafeInteger(id)) throw protocolError(`a message with the id ${id}`);
    const body = payloads.subarray(payload(bodyBytes), at);
    const table = payloads.subarray(payload(tableBytes), at);
    const { waiting } = this;
    if (waiting.length >= this.limits.maxWaitingMessages)
      throw protocolError(`${waiting.length} messages without their storages`);
    this.hold(payloads.length);
    waiting.push({ message: { type, id, body, table, storages: [] }, sizes });
    this.deliver();
  }

  /** Counts bytes that wait for others: of two messages at most, so that one may come while another waits. */
  private hold(nbytes: number): void {
    this.held += nbytes;
    const limit = 2 * this.limits.maxMessageBytes;
    if (this.held > limit) throw protocolError(`${this.held} bytes that wait for others, over the limit of ${limit}`);
  }

  /** Gives messages their storages, and hands on those that have all of them. */
  private deliver(): void {
    const { waiting, arrived } = this;
    let used = 0;
    for (let first = waiting[0]; first !== undefined && !this.over; first = waiting[0]) {
      const { message, sizes } = first;
      while (message.storages.length < sizes.length) {
        const size = sizes[message.storages.length] as number;
        const next = size === 0 ? new Uint8Array(0) : arrived[used];
        if (next === undefined) break;
        if (next.length !== size)
          throw protocolError(`a storage of ${next.length} bytes that was announced with ${size}`);
        if (size > 0) used++;
        message.storages.push(next);
      }
      if (message.storages.length < sizes.length) break;
      waiting.shift();
      this.held -= sizes.reduce((sum, size) => sum + size, message.body.buffer.byteLength);
      if (used > 0) arrived.splice(0, used);
      used = 0;
      this.port.message(message);
    }
    if (used > 0) arrived.splice(0, used);
  }
}

/** A connection that may not be there yet: what is written waits for it. */
class Outlet {
  private connection: PipeConnection | undefined;
  private queued: { chunks: readonly Uint8Array[]; flushed?: ((error?: Error) => void) | undefined }[] = [];

  get connected(): boolean {
    return this.connection !== undefined;
  }

  attach(connection: PipeConnection): void {
    this.connection = connection;
    for (const { chunks, flushed } of this.queued) connection.write(chunks, flushed);
    this.queued = [];
  }

  write(chunks: readonly Uint8Array[], flushed?: (error?: Error) => void): void {
    if (this.connection === undefined) this.queued.push({ chunks, flushed });
    else this.connection.write(chunks, flushed);
  }

  /** What still waits is never written. */
  fail(error: Error): void {
    const { queued } = this;
    this.queued = [];
    for (const { flushed } of queued) flushed?.(error);
  }
}
