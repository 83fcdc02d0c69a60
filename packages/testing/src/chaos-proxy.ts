/** @file A seeded proxy between real sockets that delays, throttles, slices, damages, stalls, half-closes and resets. */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type ListenOptions, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from './random.ts';

/** Where to connect or listen: TCP, or a Unix socket by its path. */
export type ProxyAddress = { readonly host?: string; readonly port: number } | { readonly path: string };

/** What happens to the bytes of one direction. All fields may be changed while connections are open. */
export interface ChaosRates {
  /** Delay of every byte, milliseconds. */
  latencyMs: number;
  /** Mean of an exponential delay added to it; order is kept. */
  jitterMs: number;
  /** Bytes per second; Infinity for no limit. */
  bytesPerSecond: number;
  /** Largest piece that is passed on at once; Infinity leaves pieces as they come. */
  sliceBytes: number;
  /** Chance per piece that one bit is flipped. */
  flip: number;
  /** Chance per piece that the connection is reset instead. */
  reset: number;
  /** Holds every byte until false again, as a network does that drops all packets. */
  blackhole: boolean;
  /** What happens to every connection at one byte of the direction; undefined for nothing. */
  strike: Strike | undefined;
}

/** What happens at one exact byte of a connection, which is never the one that a draw picks. */
export interface Strike {
  /** How many bytes of the direction pass before it. */
  readonly at: number;
  /** One bit of that byte is flipped; both sides are reset; the direction ends; or it and all after it are lost, and nobody is told. */
  readonly how: 'flip' | 'reset' | 'end' | 'lose';
}

/** Settings of a proxy. */
export interface ChaosOptions {
  readonly target: ProxyAddress;
  /** @default a free port on 127.0.0.1, or a new socket file when the target is one */
  readonly listen?: ProxyAddress;
  readonly seed?: number | string;
  /** From the client to the target. */
  readonly up?: Partial<ChaosRates>;
  /** From the target to the client. */
  readonly down?: Partial<ChaosRates>;
}

/** Bytes held per direction before the source is paused. */
const MAX_HELD_BYTES = 1 << 20;
/** How often a blackhole looks whether it ended, milliseconds. */
const BLACKHOLE_POLL_MS = 5;

const gentle: ChaosRates = {
  latencyMs: 0,
  jitterMs: 0,
  bytesPerSecond: Infinity,
  sliceBytes: Infinity,
  flip: 0,
  reset: 0,
  blackhole: false,
  strike: undefined,
};

/** A listening proxy; close it (or `await using`) and every connection through it is reset. */
export class ChaosProxy implements AsyncDisposable {
  readonly up: ChaosRates;
  readonly down: ChaosRates;
  /** While true, new connections are reset at once. */
  refusing = false;
  /** Connections accepted so far. */
  accepted = 0;
  /** Connections that were struck at their byte so far. */
  struck = 0;
  readonly #random: Random;
  readonly #target: ProxyAddress;
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  #directory: string | undefined;
  #address: ProxyAddress | undefined;

  /** Starts a proxy in front of `target`. */
  static async start(options: ChaosOptions): Promise<ChaosProxy> {
    const proxy = new ChaosProxy(options);
    await proxy.#listen(options.listen);
    return proxy;
  }

  private constructor(options: ChaosOptions) {
    this.up = { ...gentle, ...options.up };
    this.down = { ...gentle, ...options.down };
    this.#random = new Random(options.seed ?? 1);
    this.#target = options.target;
    // Half-open must be allowed, or a half-close could not pass through.
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** Where clients connect. */
  get address(): ProxyAddress {
    if (this.#address === undefined) throw new Error('the proxy is closed');
    return this.#address;
  }

  /** The TCP port clients connect to. */
  get port(): number {
    const { address } = this;
    if (!('port' in address)) throw new Error('the proxy listens on a Unix socket');
    return address.port;
  }

  /** Open connections. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Resets every open connection on both sides; returns how many. */
  resetAll(): number {
    const open = [...this.#pairs];
    for (const pair of open) pair.reset();
    return open.length;
  }

  /** Ends one direction of every open connection, after the bytes already accepted. */
  halfClose(direction: 'up' | 'down'): void {
    for (const pair of this.#pairs) pair[direction].finish();
  }

  /** Holds or releases both directions. */
  blackhole(on: boolean): void {
    this.up.blackhole = on;
    this.down.blackhole = on;
  }

  /** Stops listening and resets everything. */
  async close(): Promise<void> {
    this.refusing = true;
    this.resetAll();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    if (this.#directory !== undefined) await rm(this.#directory, { recursive: true, force: true });
    this.#directory = undefined;
    this.#address = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #listen(wanted: ProxyAddress | undefined): Promise<void> {
    let where: ListenOptions;
    if (wanted !== undefined) where = 'path' in wanted ? { path: wanted.path } : { host: '127.0.0.1', ...wanted };
    else if ('path' in this.#target) {
      this.#directory = await mkdtemp(join(tmpdir(), 'chaos-'));
      where = { path: join(this.#directory, 'proxy.sock') };
    } else where = { host: '127.0.0.1', port: 0 };
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(where, resolve);
    });
    const bound = this.#server.address() as AddressInfo | string;
    this.#address = typeof bound === 'string' ? { path: bound } : { host: bound.address, port: bound.port };
  }

  #accept(client: Socket): void {
    this.accepted++;
    if (this.refusing) {
      client.on('error', () => undefined);
      // A pipe cannot be reset: closing it is all there is.
      if ('path' in this.#target) client.destroy();
      else client.resetAndDestroy();
      return;
    }
    const random = this.#random.split(this.accepted);
    const target = connect({ ...this.#target, allowHalfOpen: true });
    const pair = new Pair(client, target, this, random, () => this.#pairs.delete(pair));
    this.#pairs.add(pair);
  }
}

/** The two sockets of one proxied connection. */
class Pair {
  readonly up: Pump;
  readonly down: Pump;
  readonly #sockets: readonly Socket[];
  readonly #gone: () => void;
  #over = false;

  constructor(client: Socket, target: Socket, proxy: ChaosProxy, random: Random, gone: () => void) {
    this.#sockets = [client, target];
    this.#gone = gone;
    for (const socket of this.#sockets) {
      socket.setNoDelay(true);
      socket.on('error', () => this.reset());
      socket.on('close', () => {
        if (this.#sockets.every(({ destroyed }) => destroyed)) this.#end();
      });
    }
    const reset = (): void => this.reset();
    const struck = (): void => void proxy.struck++;
    this.up = new Pump(client, target, proxy.up, random.split('up'), { reset, struck });
    this.down = new Pump(target, client, proxy.down, random.split('down'), { reset, struck });
  }

  reset(): void {
    if (this.#over) return;
    this.#end();
    for (const socket of this.#sockets) {
      // A Unix socket has no reset: its peer sees the end of the stream.
      if (socket.connecting || socket.remoteAddress === undefined) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.up.stop();
    this.down.stop();
    this.#gone();
  }
}

/** Moves bytes from one socket to the other, late and in pieces. */
class Pump {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #rates: ChaosRates;
  readonly #random: Random;
  readonly #reset: () => void;
  readonly #struck: () => void;
  readonly #queue: { bytes: Buffer | undefined; due: number }[] = [];
  #held = 0;
  #taken = 0;
  #losing = false;
  #lastDue = 0;
  #timer: NodeJS.Timeout | undefined;
  #finishing = false;
  #waiting = false;

  constructor(
    from: Socket,
    to: Socket,
    rates: ChaosRates,
    random: Random,
    { reset, struck }: { readonly reset: () => void; readonly struck: () => void },
  ) {
    this.#from = from;
    this.#to = to;
    this.#rates = rates;
    this.#random = random;
    this.#reset = reset;
    this.#struck = struck;
    from.on('data', (chunk: Buffer) => this.#take(chunk));
    from.on('end', () => {
      if (!this.#losing) this.finish();
    });
    to.on('drain', () => {
      this.#waiting = false;
      this.#schedule();
    });
  }

  /** Ends the direction after what is held. */
  finish(): void {
    if (this.#finishing) return;
    this.#finishing = true;
    this.#push(undefined);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
  }

  #take(arrived: Buffer): void {
    if (this.#finishing || this.#losing) return;
    const chunk = this.#strike(arrived);
    for (let rest = chunk; rest.length > 0;) {
      const size = Math.min(rest.length, Math.max(1, this.#rates.sliceBytes));
      this.#push(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
    if (this.#held > MAX_HELD_BYTES) this.#from.pause();
  }

  /** What goes on of a chunk in which the byte may be that is struck. */
  #strike(chunk: Buffer): Buffer {
    const { strike } = this.#rates;
    const at = (strike?.at ?? -1) - this.#taken;
    this.#taken += chunk.length;
    if (strike === undefined || at < 0 || at >= chunk.length) return chunk;
    this.#struck();
    const { how } = strike;
    if (how === 'flip') {
      const out = Buffer.from(chunk);
      out[at] = (out[at] as number) ^ (1 << (strike.at % 8));
      return out;
    }
    this.#losing = true;
    // After what comes before the byte has been passed on.
    if (how !== 'lose') queueMicrotask(() => (how === 'end' ? this.finish() : setImmediate(this.#reset)));
    return chunk.subarray(0, at);
  }

  #push(bytes: Buffer | undefined): void {
    const { latencyMs, jitterMs, bytesPerSecond } = this.#rates;
    const now = performance.now();
    const delay = latencyMs + this.#random.exponential(jitterMs);
    const sending = bytes === undefined ? 0 : (bytes.length / bytesPerSecond) * 1_000;
    this.#lastDue = Math.max(now + delay, this.#lastDue) + sending;
    this.#held += bytes?.length ?? 0;
    this.#queue.push({ bytes, due: this.#lastDue });
    this.#schedule();
  }

  #schedule(): void {
    const first = this.#queue[0];
    if (first === undefined || this.#timer !== undefined || this.#waiting) return;
    const wait = this.#rates.blackhole ? BLACKHOLE_POLL_MS : first.due - performance.now();
    if (wait <= 0) this.#flush();
    else {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#flush();
      }, wait);
    }
  }

  #flush(): void {
    const now = performance.now();
    for (let first = this.#queue[0]; first !== undefined && !this.#rates.blackhole; first = this.#queue[0]) {
      if (first.due > now || this.#waiting) break;
      this.#queue.shift();
      if (first.bytes === undefined) this.#to.end();
      else if (!this.#write(first.bytes)) return;
    }
    if (this.#held < MAX_HELD_BYTES / 2 && this.#from.isPaused()) this.#from.resume();
    this.#schedule();
  }

  #write(bytes: Buffer): boolean {
    this.#held -= bytes.length;
    if (this.#random.chance(this.#rates.reset)) {
      this.#reset();
      return false;
    }
    let out = bytes;
    if (this.#random.chance(this.#rates.flip)) {
      out = Buffer.from(bytes);
      const at = this.#random.int(0, out.length);
      out[at] = (out[at] as number) ^ (1 << this.#random.int(0, 8));
    }
    this.#waiting = !this.#to.write(out);
    return true;
  }
}
