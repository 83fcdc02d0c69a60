/** @file What a torch group keeps in its store, read and written by one member: one request after another, each within a time. */
import { RpcError } from '@backwire/rpc';
import type { TorchClient } from '@backwire/rpc/internal';
import { WireError } from '@backwire/wire/internal';
import { ARRIVALS } from '../group/store-text.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** How often a count is looked at that nobody can wait for. */
const POLL_MS = 20;

/** The keys under one prefix, through one connection. */
export class GroupStore {
  readonly client: TorchClient;
  /** Where the store is, for messages. */
  readonly endpoint: string;
  private readonly prefix: string;
  private last: Promise<unknown> = Promise.resolve();

  constructor(client: TorchClient, prefix: string, endpoint: string) {
    this.client = client;
    this.endpoint = endpoint;
    this.prefix = prefix;
  }

  set(key: string, value: string | Uint8Array): Promise<void> {
    return this.next(() => this.client.set(this.key(key), bytesOf(value)));
  }

  /** The value afterwards: `desired` where the key held `expected`, or was missing and that is ''. */
  async compareAndSet(key: string, expected: string, desired: string): Promise<string> {
    const after = await this.next(() =>
      this.client.compareAndSet(this.key(key), encoder.encode(expected), encoder.encode(desired)),
    );
    return decoder.decode(after);
  }

  has(key: string): Promise<boolean> {
    return this.next(() => this.client.check([this.key(key)]));
  }

  add(key: string, delta: number): Promise<number> {
    return this.next(async () => Number(await this.client.add(this.key(key), BigInt(delta))));
  }

  /** The value, which is there. */
  bytes(key: string): Promise<Uint8Array> {
    return this.next(async () => (await this.client.multiGet([this.key(key)]))[0] as Uint8Array);
  }

  async text(key: string): Promise<string> {
    return decoder.decode(await this.bytes(key));
  }

  /** Waits for a key. @throws RpcError 'deadline-exceeded' naming `what`. */
  async await(key: string, timeoutMs: number, what: string): Promise<Uint8Array> {
    // The connection does one thing at a time: a wait that takes long is cut short, so that others come in between.
    const end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    for (;;) {
      const left = end - performance.now();
      if (left <= 0) throw new RpcError('deadline-exceeded', `${what} did not come within ${timeoutMs} ms`);
      const slice = Math.min(left, WAIT_SLICE_MS);
      const there = await this.next(() => this.client.wait([this.key(key)], Math.ceil(slice)));
      if (there) return this.bytes(key);
    }
  }

  async awaitText(key: string, timeoutMs: number, what: string): Promise<string> {
    return decoder.decode(await this.await(key, timeoutMs, what));
  }

  /** What `read` makes of a key's value. @throws RpcError 'decode-error' or 'resource-exhausted' naming the key and the store. */
  parsed<T>(key: string, what: string, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      const text = `${what}, '${this.key(key)}' in the store at ${this.endpoint}, cannot be read: ${error.message}`;
      throw new RpcError(error.code === 'limit' ? 'resource-exhausted' : 'decode-error', text, { cause: error });
    }
  }

  /** Says that this process has come; how many have, then. */
  arrive(): Promise<number> {
    return this.next(async () => Number(await this.client.addBare(ARRIVALS, 1n)));
  }

  /** Waits until `size` have come. @throws RpcError 'deadline-exceeded' saying how many have. */
  async awaitArrivals(size: number, timeoutMs: number): Promise<void> {
    const end = performance.now() + timeoutMs;
    for (;;) {
      const come = await this.next(async () => Number(await this.client.addBare(ARRIVALS, 0n)));
      if (come >= size) return;
      if (timeoutMs > 0 && performance.now() > end)
        throw new RpcError('deadline-exceeded', `only ${come} of ${size} workers came within ${timeoutMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  close(): void {
    this.client.close();
  }

  /** A key as the store has it. */
  key(key: string): string {
    return `${this.prefix}/${key}`;
  }

  private next<T>(request: () => Promise<T>): Promise<T> {
    const turn = this.last.then(request, request);
    this.last = turn.catch(() => undefined);
    return turn;
  }
}

const WAIT_SLICE_MS = 100;

function bytesOf(value: string | Uint8Array): Uint8Array {
  return typeof value === 'string' ? encoder.encode(value) : value;
}
