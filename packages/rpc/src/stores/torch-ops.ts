/** @file The operations of torch's TCPStore, byte for byte, so that stock torch clients can share an embedded store. */
import { RpcError } from '../base/errors.ts';
import { MAX_KEY_BYTES, MAX_KEYS_PER_REQUEST, MAX_VALUE_BYTES } from './limits.ts';
import { i64 } from './protocol.ts';
import type { StoreState } from './state.ts';

/** The first byte of a torch client is VALIDATE. */
export const TorchOp = Object.freeze({
  VALIDATE: 0x00,
  SET: 0x01,
  COMPARE_SET: 0x02,
  GET: 0x03,
  ADD: 0x04,
  CHECK: 0x05,
  WAIT: 0x06,
  GETNUMKEYS: 0x07,
  DELETE_KEY: 0x08,
  APPEND: 0x09,
  MULTI_GET: 0x0a,
  MULTI_SET: 0x0b,
  CANCEL_WAIT: 0x0c,
  PING: 0x0d,
  QUEUE_PUSH: 0x0e,
  QUEUE_POP: 0x0f,
  QUEUE_LEN: 0x10,
  LIST_KEYS: 0x11,
  BARRIER: 0x12,
});

export const TORCH_MAGIC = 0x3c85f7ce;

export const READY = 0;
const NOT_READY = 1;
export const STOP_WAITING = 0;
const WAIT_CANCELED = 1;
/** All values of one MULTI_SET or MULTI_GET, which torch itself does not bound. */
const MAX_MULTI_BYTES = 64 * 1024 * 1024;

/** What the operations need of the connection and the server. */
export interface TorchHost {
  readonly state: StoreState;
  send(bytes: Uint8Array): void;
  /** Parks a function that gives up whatever this client waits for; undefined = nothing. */
  park(cancel: (() => void) | undefined): void;
  /** Gives up what is parked; false when nothing is. */
  unpark(): boolean;
  /** Counts a client into a barrier; `release` is called when all are there. Returns how to step back. */
  barrier(key: string, worldSize: bigint, release: () => void): () => void;
}

type Fields<T = void> = Generator<number, T, Uint8Array>;

/** Reads one operation, whose code is `op`, and does it. @throws RpcError 'protocol-error' for anything torch would hang up on. */
export function* serveTorch(op: number, host: TorchHost): Fields {
  const { state } = host;
  switch (op) {
    case TorchOp.VALIDATE:
      if (view(yield 4).getUint32(0, true) !== TORCH_MAGIC) throw refused('a wrong magic number');
      return;
    case TorchOp.PING:
      host.send((yield 4).slice());
      return;
    case TorchOp.SET:
      state.set(yield* key(), yield* value());
      return;
    case TorchOp.COMPARE_SET:
      host.send(blob(compareSet(state, yield* key(), yield* value(), yield* value())));
      return;
    case TorchOp.GET:
      host.send(blob(state.get(yield* key()) ?? new Uint8Array(0)));
      return;
    case TorchOp.ADD: {
      const name = yield* key();
      host.send(i64(state.add(name, view(yield 8).getBigInt64(0, true))));
      return;
    }
    case TorchOp.CHECK: {
      const names = yield* keys();
      host.send(Uint8Array.of(names.every((name) => state.has(name)) ? READY : NOT_READY));
      return;
    }
    case TorchOp.WAIT: {
      const names = yield* keys();
      waitFor(host, (done) => state.wait(names, done));
      return;
    }
    case TorchOp.CANCEL_WAIT:
      host.unpark();
      host.send(Uint8Array.of(WAIT_CANCELED));
      return;
    case TorchOp.BARRIER: {
      const name = yield* key();
      const worldSize = view(yield 8).getBigInt64(0, true);
      waitFor(host, (done) => host.barrier(name, worldSize, done));
      return;
    }
    default:
      yield* serveCollections(op, host);
  }
}

function* serveCollections(op: number, host: TorchHost): Fields {
  const { state } = host;
  switch (op) {
    case TorchOp.GETNUMKEYS:
      host.send(i64(BigInt(state.size)));
      return;
    case TorchOp.DELETE_KEY:
      host.send(i64(state.delete(yield* key()) ? 1n : 0n));
      return;
    case TorchOp.APPEND:
      state.append(yield* key(), yield* value());
      return;
    case TorchOp.MULTI_GET:
      multiGet(host, yield* keys());
      return;
    case TorchOp.MULTI_SET:
      yield* multiSet(state);
      return;
    case TorchOp.QUEUE_PUSH:
      state.push(yield* key(), yield* value());
      return;
    case TorchOp.QUEUE_POP: {
      const { size, value: item } = state.pop(yield* key());
      host.send(i64(BigInt(size)));
      if (item !== undefined) host.send(blob(item));
      return;
    }
    case TorchOp.QUEUE_LEN:
      host.send(i64(BigInt(state.queueLength(yield* key()))));
      return;
    case TorchOp.LIST_KEYS: {
      const names = state.keys();
      host.send(i64(BigInt(names.length)));
      for (const name of names) host.send(blob(Buffer.from(name, 'latin1')));
      return;
    }
    default:
      throw refused(`an unknown operation ${op}`);
  }
}

/** Keys are bytes to torch; one character a byte keeps them as they are. */
export function keyOfBytes(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

function compareSet(state: StoreState, name: string, expected: Uint8Array, desired: Uint8Array): Uint8Array {
  const current = state.get(name);
  if (current === undefined) {
    // torch answers with what was expected when there is nothing to compare.
    if (expected.byteLength > 0) return expected;
    state.set(name, desired);
    return desired;
  }
  return state.compareAndSet(name, expected, desired).current ?? current;
}

function waitFor(host: TorchHost, start: (done: () => void) => () => void): void {
  // torch's clients wait for one thing at a time: what comes on top of another wait takes its place, or they would pile up here.
  host.unpark();
  let over = false;
  const cancel = start(() => {
    over = true;
    host.park(undefined);
    host.send(Uint8Array.of(STOP_WAITING));
  });
  if (!over) host.park(cancel);
}

function multiGet(host: TorchHost, names: readonly string[]): void {
  let total = 0;
  for (const name of names) {
    const found = host.state.get(name) ?? new Uint8Array(0);
    total += found.byteLength;
    if (total > MAX_MULTI_BYTES) throw refused('too much asked for at once');
    host.send(blob(found));
  }
}

function* multiSet(state: StoreState): Fields {
  const count = yield* count64();
  const pairs: [string, Uint8Array][] = [];
  let total = 0;
  for (let i = 0; i < count; i++) {
    const name = yield* key();
    const item = yield* value();
    total += name.length + item.byteLength;
    if (total > MAX_MULTI_BYTES) throw refused('too much sent at once');
    pairs.push([name, item]);
  }
  for (const [name, item] of pairs) state.set(name, item);
}

function* keys(): Fields<string[]> {
  const count = yield* count64();
  const names: string[] = [];
  let total = 0;
  for (let i = 0; i < count; i++) {
    const name = yield* key();
    total += name.length;
    if (total > MAX_MULTI_BYTES) throw refused('too many keys at once');
    names.push(name);
  }
  return names;
}

function* count64(): Fields<number> {
  const count = view(yield 8).getBigUint64(0, true);
  if (count > BigInt(MAX_KEYS_PER_REQUEST)) throw refused(`a list of ${count}`);
  return Number(count);
}

function* key(): Fields<string> {
  return keyOfBytes(yield* field(MAX_KEY_BYTES));
}

function* value(): Fields<Uint8Array> {
  return (yield* field(MAX_VALUE_BYTES)).slice();
}

function* field(limit: number): Fields<Uint8Array> {
  const length = view(yield 8).getBigUint64(0, true);
  if (length > BigInt(limit)) throw refused(`a field of ${length} bytes, at most ${limit} are taken`);
  return length === 0n ? new Uint8Array(0) : yield Number(length);
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function blob(value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(8 + value.byteLength);
  view(bytes).setBigUint64(0, BigInt(value.byteLength), true);
  bytes.set(value, 8);
  return bytes;
}

function refused(why: string): RpcError {
  return new RpcError('protocol-error', why);
}
