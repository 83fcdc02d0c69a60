/** @file Opens the full mesh of a static group: every rank publishes where it listens, and of each pair one side dials. */
import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';
import { RpcError } from '@backwire/rpc';
import { MAX_TIMER_MS, type Connection, type Listener, type Transport } from '@backwire/rpc/internal';
import { protocolError } from '@backwire/wire/internal';
import { checkMeshSize, dials, readGlooAddress, writeGlooAddress, type GlooAddress } from '../gloo/address.ts';
import { glooProgram } from '../gloo/frame.ts';
import { GlooMesh } from '../gloo/mesh.ts';
import { meshKey } from '../group/store-text.ts';
import { run } from '../links/run.ts';
import type { PipeProgram } from '../pipe/program.ts';
import type { GroupStore } from './store.ts';

export interface MeshOptions {
  readonly rank: number;
  readonly size: number;
  /** The address of this machine to listen on. */
  readonly host: string;
  /** The address by which the other ranks reach it. Version 4. */
  readonly advertise: string;
  readonly transport: Transport;
  readonly store: GroupStore;
  /** What is left of the time to join. */
  readonly left: () => number;
}

/**
 * One rank's side of the mesh. It keeps its connections until it is closed; ranks of torch close theirs as soon as they are through the
 * barrier at the end of joining, while others may still be in it.
 */
export class MeshShell {
  private readonly options: MeshOptions;
  private readonly connections: (Connection | undefined)[];
  private readonly mesh: GlooMesh;
  private readonly sequences: readonly number[];
  private listener: Listener | undefined;
  private failure: Error | undefined;
  /** Why connections ended that nothing needed. */
  private readonly gone = new Map<number, Error>();
  private closing = false;
  private readonly waiting = new Set<(error: Error) => void>();
  private changed: () => void = () => undefined;

  private constructor(options: MeshOptions) {
    this.options = options;
    this.connections = new Array<Connection | undefined>(options.size).fill(undefined);
    // Distinct, so that a connection names its pair; unguessable, so that nobody else's does.
    const base = randomInt(2 ** 40) * options.size;
    this.sequences = Array.from({ length: options.size }, (_, rank) => base + rank);
    this.mesh = new GlooMesh(options.rank, options.size, {
      write: (rank, chunks) => this.write(rank, chunks),
    });
  }

  get size(): number {
    return this.options.size;
  }

  static async open(options: MeshOptions): Promise<MeshShell> {
    const shell = new MeshShell(options);
    try {
      await shell.connect();
      return shell;
    } catch (error) {
      await shell.close();
      throw error;
    }
  }

  /** What every rank gave, by rank. */
  allGather(own: Uint8Array, timeoutMs: number): Promise<Uint8Array[]> {
    return this.collective(timeoutMs, (done) => this.mesh.allGatherObjects(own, done));
  }

  barrier(timeoutMs: number): Promise<void> {
    return this.collective(timeoutMs, (done: (value: void) => void) => this.mesh.barrier(() => done()));
  }

  async close(): Promise<void> {
    this.closing = true;
    await this.listener?.close();
    for (const connection of this.connections) connection?.close();
  }

  private async connect(): Promise<void> {
    const { rank, size, host, advertise, transport, store, left } = this.options;
    if (size === 1) return;
    const bytes = advertise.split('.').map(Number);
    if (bytes.length !== 4 || bytes.some((byte) => !(byte >= 0 && byte <= 255)))
      throw new RpcError(
        'invalid-argument',
        `a static group of torch needs addresses of version 4; '${advertise}' is none`,
      );
    this.listener = await transport.listen({ host }, (connection) => this.accept(connection));
    const port = Number(/:(\d+)$/.exec(this.listener.endpoint)?.[1]);
    const own: GlooAddress = { hostname: hostname(), host: Uint8Array.from(bytes), port, sequences: this.sequences };
    await store.set(meshKey(rank), writeGlooAddress(own));
    for (let other = 0; other < size; other++) {
      if (other === rank) continue;
      const found = await store.await(meshKey(other), left(), `rank ${other}`);
      checkMeshSize(found, other, size);
      const address = readGlooAddress(found, size);
      if (dials(own, address)) await this.dial(other, address);
    }
    await this.complete(left());
  }

  private async dial(rank: number, address: GlooAddress): Promise<void> {
    const { transport, left } = this.options;
    const timeoutMs = left();
    const where = `tcp://${[...address.host].join('.')}:${address.port}`;
    const connection = await transport.dial(where, timeoutMs === 0 ? {} : { timeoutMs });
    const hello = new Uint8Array(8);
    new DataView(hello.buffer).setBigInt64(0, BigInt(address.sequences[this.options.rank] as number), true);
    this.adopt(rank, connection);
    run(connection, glooProgram(this.mesh.sink(rank)), (error) => this.ended(rank, error));
    connection.write([hello]);
  }

  private accept(connection: Connection): void {
    let rank: number | undefined;
    const program = (function* (shell: MeshShell): PipeProgram {
      const head = yield 8;
      const sequence = Number(new DataView(head.buffer, head.byteOffset, 8).getBigInt64(0, true));
      rank = shell.sequences.indexOf(sequence);
      if (rank < 0 || rank === shell.options.rank || shell.connections[rank] !== undefined)
        throw protocolError('a connection that no rank was told of');
      shell.adopt(rank, connection);
      yield* glooProgram(shell.mesh.sink(rank));
    })(this);
    run(connection, program, (error) => {
      if (rank !== undefined && this.connections[rank] === connection) this.ended(rank, error);
    });
  }

  private adopt(rank: number, connection: Connection): void {
    this.connections[rank] = connection;
    this.changed();
  }

  /** Resolves when all ranks are connected. */
  private complete(timeoutMs: number): Promise<void> {
    const missing = (): number[] =>
      this.connections.flatMap((found, rank) => (found === undefined && rank !== this.options.rank ? [rank] : []));
    return this.bounded(
      timeoutMs,
      () => `ranks ${missing().join(', ')} did not connect`,
      (done: (value: void) => void) => {
        this.changed = () => (missing().length === 0 ? done() : undefined);
        this.changed();
      },
    );
  }

  private collective<T>(timeoutMs: number, start: (done: (value: T) => void) => void): Promise<T> {
    return this.bounded(timeoutMs, () => 'not all ranks came', start);
  }

  private bounded<T>(timeoutMs: number, late: () => string, start: (done: (value: T) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.failure !== undefined) return reject(this.failure);
      const timer =
        timeoutMs === 0
          ? undefined
          : setTimeout(
              () => fail(new RpcError('deadline-exceeded', `${late()} within ${timeoutMs} ms`)),
              Math.min(timeoutMs, MAX_TIMER_MS),
            );
      const fail = (error: Error): void => {
        clearTimeout(timer);
        this.waiting.delete(fail);
        reject(error);
      };
      this.waiting.add(fail);
      start((value) => {
        clearTimeout(timer);
        this.waiting.delete(fail);
        resolve(value);
      });
    });
  }

  private write(rank: number, chunks: readonly Uint8Array[]): void {
    const gone = this.gone.get(rank);
    if (gone === undefined) this.connections[rank]?.write(chunks);
    else this.fail(gone);
  }

  private ended(rank: number, cause: Error | undefined): void {
    if (this.closing) return;
    const why = cause === undefined ? '' : `: ${cause.message}`;
    const error = new RpcError('peer-died', `the connection to rank ${rank} ended${why}`, { cause });
    if (this.mesh.doesWithout(rank)) this.gone.set(rank, error);
    else this.fail(error);
  }

  private fail(error: Error): void {
    this.failure = error;
    for (const fail of [...this.waiting]) fail(error);
  }
}
