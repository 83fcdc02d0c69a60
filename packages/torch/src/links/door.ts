/** @file Where other members come in: pipes that they open, and the requests on them. */
import { randomInt } from 'node:crypto';
import type { Connection, Listener, Transport } from '@backwire/rpc/internal';
import { runAtRoot } from '@backwire/tensor/internal';
import { protocolError } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import type { Body } from '../messages/commands.ts';
import { PipeListener } from '../pipe/listener.ts';
import type { IncomingMessage } from '../pipe/message.ts';
import type { Pipe, PipePort } from '../pipe/pipe.ts';
import { arrived, post, type ArrivedBody } from './bodies.ts';
import { run } from './run.ts';

export interface DoorOptions {
  readonly limits: TorchLimits;
  readonly channels: readonly string[];
  /** How long a connection may take to say what it is. */
  readonly handshakeMs: number;
  /** Requests of one peer that are not answered. */
  readonly maxRequests: number;
  /** Whether a worker of this name may come in: an error says why not. */
  admit(name: string): Error | undefined;
  serve(caller: Caller, body: ArrivedBody): void;
  /** A request that makes no sense: only its answer is owed. */
  malformed(caller: Caller, error: unknown): void;
  /** What is wrong with a connection, for the log. */
  refused(remote: string, error: Error): void;
}

const RESPONSE = 0x200;

/** The listener of one worker. Opened before its address is known to anybody. */
export class Door {
  /** 'host:port', as peers dial it. */
  readonly address: string;
  private readonly options: DoorOptions;
  private readonly listener: Listener;
  private readonly pipes = new Set<Pipe>();
  private readonly strangers = new Set<Connection>();
  private readonly pipeListener: PipeListener;

  private constructor(listener: Listener, options: DoorOptions) {
    this.options = options;
    this.listener = listener;
    this.address = listener.endpoint.replace(/^tcp:\/\//, '');
    this.pipeListener = new PipeListener(this.address, options, {
      admit: (name) => options.admit(name),
      opening: (name, pipe) => this.opening(name, pipe),
      registration: () => randomInt(2 ** 47),
    });
  }

  static async open(
    transport: Transport,
    where: { readonly host: string; readonly port?: number | undefined; readonly advertise?: string | undefined },
    options: DoorOptions,
  ): Promise<Door> {
    const early: Connection[] = [];
    const made: { door?: Door } = {};
    const listener = await transport.listen(where, (connection) => {
      if (made.door === undefined) early.push(connection);
      else made.door.accept(connection);
    });
    const door = (made.door = new Door(listener, options));
    for (const connection of early) door.accept(connection);
    return door;
  }

  async close(): Promise<void> {
    await this.listener.close();
    for (const connection of this.strangers) connection.destroy();
    for (const pipe of [...this.pipes]) pipe.fail(undefined);
  }

  private accept(connection: Connection): void {
    const { handshakeMs } = this.options;
    this.strangers.add(connection);
    const timer = runAtRoot(() =>
      setTimeout(() => connection.destroy(new Error('a connection that did not say what it is')), handshakeMs),
    );
    let pipe: Pipe | undefined;
    const known = (found?: Pipe): void => {
      clearTimeout(timer);
      this.strangers.delete(connection);
      pipe = found;
    };
    run(connection, this.pipeListener.accept(connection, known), (error) => {
      if (pipe !== undefined) return pipe.fail(error);
      known();
      if (error !== undefined) this.options.refused(connection.remote, error);
    });
  }

  private opening(from: string, pipe: Pipe): PipePort {
    this.pipes.add(pipe);
    let open = 0;
    return {
      message: (message) => {
        if ((message.type & RESPONSE) !== 0) throw protocolError('an answer on a pipe of requests');
        if (open >= this.options.maxRequests)
          throw protocolError(
            `more than ${this.options.maxRequests} requests of worker '${from}' that are not answered`,
          );
        open++;
        this.request(from, pipe, message, () => open--);
      },
      closed: (error) => {
        this.pipes.delete(pipe);
        if (error !== undefined) this.options.refused(from, error);
      },
    };
  }

  private request(from: string, pipe: Pipe, message: IncomingMessage, over: () => void): void {
    const { limits } = this.options;
    const caller = new Caller(from, pipe, message.id, limits, over);
    let body: ArrivedBody;
    try {
      body = arrived(message, limits);
    } catch (error) {
      return this.options.malformed(caller, error);
    }
    this.options.serve(caller, body);
  }
}

/** Where the answer to one request goes. */
export class Caller {
  /** The name that the caller's pipe was opened with. */
  readonly from: string;
  private readonly pipe: Pipe;
  private readonly id: number;
  private readonly limits: TorchLimits;
  private readonly over: () => void;
  private answered = false;

  constructor(from: string, pipe: Pipe, id: number, limits: TorchLimits, over: () => void) {
    this.from = from;
    this.pipe = pipe;
    this.id = id;
    this.limits = limits;
    this.over = over;
  }

  /** Sends the answer; the second one, or one for which nobody is left, is dropped. @throws as `post`: the caller is owed another one. */
  answer(body: Body): void {
    if (this.answered) return;
    if (!this.pipe.closed) post(this.pipe, this.id, body, this.limits);
    this.answered = true;
    this.over();
  }
}
