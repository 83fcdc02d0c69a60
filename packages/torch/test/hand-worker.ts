/** @file A worker of a torch group without an agent: sockets, pipes and commands, and a test that says every word. */
import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { ByteReader, type ReadProgram } from '@backwire/rpc/internal';
import { DEFAULT_TORCH_LIMITS } from '../src/limits.ts';
import type { Body } from '../src/messages/commands.ts';
import { PipeDialler } from '../src/pipe/dialler.ts';
import { PipeListener } from '../src/pipe/listener.ts';
import type { IncomingMessage } from '../src/pipe/message.ts';
import type { Pipe, PipeConnection, PipePort } from '../src/pipe/pipe.ts';
import { buildEntries } from '../src/table/build.ts';
import { readTable } from '../src/table/entries.ts';
import { writeTable } from '../src/table/write.ts';

const options = { limits: DEFAULT_TORCH_LIMITS };
const RESPONSE = 0x200;

/** A request that came, and where its answer goes. */
export interface Asked {
  readonly from: string;
  readonly body: Body;
  answer(body: Body): void;
}

/** Reads with `program` what comes on a socket; `onEnd` hears how it ended, and whether the program itself refused. */
function read(socket: Socket, program: ReadProgram, onEnd: (error: Error, mine: boolean) => void): void {
  const end = (error?: Error, mine = false): void => onEnd(error ?? new Error('the peer closed'), mine);
  const reader = new ByteReader(program, (error) => end(error));
  socket.setNoDelay(true);
  socket.on('data', (bytes) => {
    try {
      for (let at = 0; at < bytes.length;) {
        const room = reader.nextBuffer();
        const count = Math.min(room.length, bytes.length - at);
        room.set(bytes.subarray(at, at + count));
        reader.received(count);
        at += count;
      }
    } catch (error) {
      socket.destroy();
      end(error as Error, true);
    }
  });
  socket.on('error', (error) => end(error));
  socket.on('close', () => end());
}

class SocketConnection implements PipeConnection {
  private readonly socket: Socket;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    const { socket } = this;
    socket.cork();
    chunks.forEach((chunk, i) => {
      const last = i === chunks.length - 1;
      socket.write(chunk, last ? (error) => onFlushed?.(error ?? undefined) : undefined);
    });
    socket.uncork();
  }

  close(): void {
    this.socket.end();
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** The body of a message, with its tensors. */
function bodyOf({ type, body, table, storages }: IncomingMessage): Body {
  const sizes = storages.map(({ length }) => length);
  return { type, body, tensors: buildEntries(readTable(table, sizes), storages) };
}

function post(pipe: Pipe, id: number, { type, body, tensors }: Body): void {
  const table = writeTable(tensors);
  pipe.send({ type, id, body, table: table.bytes, storages: table.storages }, () => table.release());
}

/** A pipe to one member, and the calls on it. */
class Member {
  private readonly pipe: Pipe;
  private readonly open = new Map<number, { resolve: (body: Body) => void; reject: (error: Error) => void }>();
  private next = 0;

  constructor(name: string, address: string) {
    const dialler = new PipeDialler(name, options, {
      message: (message) => this.answered(message),
      closed: (error) => this.ended(error ?? new Error('closed')),
      dial: (target) => {
        for (const use of ['reply', 'channel'] as const) run(target, (connection) => dialler[use](connection));
      },
    });
    this.pipe = dialler.pipe;
    const run = (target: string, program: (connection: PipeConnection) => ReadProgram): void => {
      const [host, port] = target.replace(/^.*\/\//, '').split(':') as [string, string];
      const socket = connect(Number(port), host);
      read(socket, program(new SocketConnection(socket)), (error) => this.pipe.fail(error));
    };
    run(address, (connection) => dialler.first(connection));
  }

  call(body: Body): Promise<Body> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.open.set(id, { resolve, reject });
      post(this.pipe, id, body);
    });
  }

  close(): void {
    this.pipe.fail(undefined);
  }

  private answered(message: IncomingMessage): void {
    const call = this.open.get(message.id);
    this.open.delete(message.id);
    if (call === undefined) return;
    try {
      call.resolve(bodyOf(message));
    } catch (error) {
      call.reject(error as Error);
    }
  }

  private ended(error: Error): void {
    for (const { reject } of this.open.values()) reject(error);
    this.open.clear();
  }
}

/** The worker: dials members, and hands to `asked` what they ask. */
export class HandWorker {
  readonly address: string;
  /** What ended pipes while the others still ran. */
  readonly failures: Error[] = [];
  private readonly members = new Map<string, Member>();
  private readonly server: Server;
  private readonly name: string;
  private readonly pipes = new Set<Pipe>();

  private constructor(name: string, server: Server, asked: (request: Asked) => void) {
    this.name = name;
    this.server = server;
    this.address = `127.0.0.1:${(server.address() as { port: number }).port}`;
    let registrations = 0;
    const listener = new PipeListener(this.address, options, {
      admit: () => undefined,
      opening: (from, pipe) => this.serve(from, pipe, asked),
      registration: () => registrations++,
    });
    server.on('connection', (socket) => {
      let pipe: Pipe | undefined;
      const program = listener.accept(new SocketConnection(socket), (found) => (pipe = found));
      read(socket, program, (error, mine) => {
        if (mine) this.failures.push(error);
        pipe?.fail(error);
      });
    });
  }

  static async listen(name: string, asked: (request: Asked) => void): Promise<HandWorker> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new HandWorker(name, server, asked);
  }

  dial(name: string, address: string): void {
    this.members.set(name, new Member(this.name, address));
  }

  call(name: string, body: Body): Promise<Body> {
    const member = this.members.get(name);
    if (member === undefined) throw new Error(`nobody is called ${name}`);
    return member.call(body);
  }

  close(): void {
    for (const member of this.members.values()) member.close();
    for (const pipe of this.pipes) pipe.fail(undefined);
    this.server.close();
  }

  private serve(from: string, pipe: Pipe, asked: (request: Asked) => void): PipePort {
    this.pipes.add(pipe);
    return {
      message: (message) => {
        if ((message.type & RESPONSE) !== 0) throw new Error('an answer to nothing');
        asked({ from, body: bodyOf(message), answer: (body) => post(pipe, message.id, body) });
      },
      closed: () => this.pipes.delete(pipe),
    };
  }
}
