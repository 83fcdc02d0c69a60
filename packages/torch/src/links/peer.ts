/** @file Requests of this worker to one member, on a pipe that the first of them opens. */
import { setTimeout as delay } from 'node:timers/promises';
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import type { Connection, Transport } from '@backwire/rpc/internal';
import { runAtRoot } from '@backwire/tensor/internal';
import type { TorchLimits } from '../limits.ts';
import type { Body } from '../messages/commands.ts';
import { PipeDialler } from '../pipe/dialler.ts';
import type { IncomingMessage } from '../pipe/message.ts';
import { arrived, forget, post, type ArrivedBody } from './bodies.ts';
import { run } from './run.ts';

/** What becomes of a request: one of the two, once. */
export interface Reply {
  resolve(body: ArrivedBody): void;
  reject(error: unknown): void;
  /** Called before, and also where the request was given up, when it was never sent: the pipe did not open. */
  unsent?(): void;
}

/** What still happens with a request that was given up: one of the two, once. */
export interface Abandoned {
  /** Its answer has come. */
  late(body: ArrivedBody): void;
  /** Its answer will not come, or cannot be read. */
  lost(): void;
}

export interface PeerOptions {
  /** This worker's own name, by which the peer knows who calls. */
  readonly name: string;
  readonly transport: Transport;
  readonly limits: TorchLimits;
  readonly channels: readonly string[];
  readonly dialTimeoutMs: number;
  /** The pipe ended while the group goes on: the member is most likely dead. */
  onDown(peer: TorchPeer, error: Error | undefined): void;
  /** The member has answered on a new pipe: it is there. Called once a pipe. */
  onAnswer(peer: TorchPeer): void;
}

/** One that knows where a member listens. Pipes that ended are replaced by the next request: a member may have come back. */
export class TorchPeer {
  readonly worker: WorkerInfo;
  /** 'host:port' */
  readonly address: string;
  private readonly options: PeerOptions;
  private line: Line | undefined;

  constructor(worker: WorkerInfo, address: string, options: PeerOptions) {
    this.worker = worker;
    this.address = address;
    this.options = options;
  }

  /** Requests that are not answered. */
  get open(): number {
    return this.line?.open.size ?? 0;
  }

  /** Whether its last pipe has ended, and nothing was asked since. */
  get isDown(): boolean {
    return this.line?.over === true;
  }

  /** Whether it has a pipe, or one is being made: the end of that is heard of. */
  get isLinked(): boolean {
    return this.line?.over === false;
  }

  /**
   * Sends a request; the returned function gives it up, after which `rest` hears of a late answer, and of nothing else.
   * @throws WireError 'limit', DisposedError, TypeError: nothing is sent then.
   */
  request(body: Body, reply: Reply): (rest: Abandoned) => void {
    if (this.line === undefined || this.line.over) this.line = this.connect();
    return this.line.request(body, reply);
  }

  /** Closes the pipe in good order; what is open fails with 'cancelled'. Resolves when no connection is on its way any more, or soon. */
  async close(): Promise<void> {
    await this.line?.close();
  }

  private connect(): Line {
    return runAtRoot(() => new Line(this, this.options));
  }
}

/** How long a worker that leaves waits for connections that are on their way. */
const FAREWELL_MS = 1_000;

/** Of how many requests that were given up a late answer is heard; of more the oldest are forgotten. */
const MAX_ABANDONED = 4_096;

/** One pipe of a peer. */
class Line {
  readonly open = new Map<number, Reply>();
  over = false;
  private readonly peer: TorchPeer;
  private readonly options: PeerOptions;
  private readonly dialler: PipeDialler;
  private next = 0;
  private closing = false;
  private answered = false;
  /** Requests that were given up and are not answered. */
  private readonly abandoned = new Map<number, Abandoned>();
  /** Requests that wait for the pipe to open, those that were given up among them. */
  private waiting: Reply[] = [];
  /** Connections that are on their way. */
  private readonly dialling = new Set<Promise<void>>();

  constructor(peer: TorchPeer, options: PeerOptions) {
    this.peer = peer;
    this.options = options;
    this.dialler = new PipeDialler(options.name, options, {
      message: (message) => this.message(message),
      closed: (error) => this.closed(error),
      dial: (address) => {
        this.dial(address, 'reply');
        this.dial(address, 'channel');
      },
    });
    this.dial(peer.address, 'first');
  }

  request(body: Body, reply: Reply): (rest: Abandoned) => void {
    const id = this.next++;
    const { limits } = this.options;
    // Known before it is sent: a pipe that cannot be written to ends at once.
    this.open.set(id, reply);
    try {
      post(this.dialler.pipe, id, body, limits);
    } catch (error) {
      this.open.delete(id);
      throw error;
    }
    if (this.dialler.pipe.complete) this.waiting = [];
    else if (reply.unsent !== undefined) this.waiting.push(reply);
    return (rest) => {
      if (!this.open.delete(id)) return;
      this.abandoned.set(id, rest);
      if (this.abandoned.size <= MAX_ABANDONED) return;
      const [oldest = id] = this.abandoned.keys();
      this.abandoned.get(oldest)?.lost();
      this.abandoned.delete(oldest);
    };
  }

  async close(): Promise<void> {
    this.closing = true;
    this.dialler.pipe.fail(undefined);
    if (this.dialling.size === 0) return;
    const over = new AbortController();
    const late = delay(FAREWELL_MS, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([Promise.all(this.dialling), late]);
    over.abort();
  }

  /** A dial is never cut off: see `PipeDialler.farewell`. */
  private dial(address: string, use: 'first' | 'reply' | 'channel'): void {
    const { transport, dialTimeoutMs } = this.options;
    const { pipe } = this.dialler;
    const dialled = transport.dial(`tcp://${address}`, { timeoutMs: dialTimeoutMs }).then(
      (connection) => this.dialled(connection, use),
      (error: Error) => pipe.fail(error),
    );
    const done = dialled.then(() => void this.dialling.delete(done));
    this.dialling.add(done);
  }

  private dialled(connection: Connection, use: 'first' | 'reply' | 'channel'): void {
    const { dialler } = this;
    if (dialler.pipe.closed) {
      connection.write([dialler.farewell(use)]);
      connection.close();
    } else
      run(connection, dialler[use](connection), (error) => dialler.pipe.fail(error ?? new Error('the peer closed')));
  }

  private message(message: IncomingMessage): void {
    // A pipe that carries answers has opened.
    this.waiting = [];
    if (!this.answered) {
      this.answered = true;
      this.options.onAnswer(this.peer);
    }
    const { id } = message;
    const reply = this.open.get(id);
    const rest = this.abandoned.get(id);
    this.open.delete(id);
    this.abandoned.delete(id);
    // An answer to nothing.
    if (reply === undefined && rest === undefined) return forget(message);
    let body: ArrivedBody;
    try {
      body = arrived(message, this.options.limits);
    } catch (error) {
      rest?.lost();
      return reply?.reject(error);
    }
    rest?.late(body);
    reply?.resolve(body);
  }

  private closed(error: Error | undefined): void {
    this.over = true;
    const { worker } = this.peer;
    const failures = [...this.open.values()];
    this.open.clear();
    const reached = this.dialler.pipe.complete;
    const unsent = reached ? [] : this.waiting;
    this.waiting = [];
    for (const reply of unsent) reply.unsent?.();
    for (const rest of this.abandoned.values()) rest.lost();
    this.abandoned.clear();
    for (const reply of failures) {
      if (this.closing) reply.reject(new RpcError('cancelled', 'this worker has left its group', { peer: worker }));
      else reply.reject(lost(worker, error, reached));
    }
    if (!this.closing) this.options.onDown(this.peer, error);
  }
}

/** Why the answers of a peer will not come. A pipe that never opened has carried no call. */
function lost(peer: WorkerInfo, cause: Error | undefined, reached: boolean): RpcError {
  const why = cause === undefined ? '' : `: ${cause.message}`;
  if (!reached) return new RpcError('unavailable', `worker '${peer.name}' cannot be reached${why}`, { peer, cause });
  const text = `the connection to worker '${peer.name}' ended${why}`;
  return new RpcError('peer-died', text, { executed: 'maybe', peer, cause });
}
