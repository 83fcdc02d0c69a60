/** @file One client of an embedded store: proof first, then its requests, torch's and ours, until it goes. */
import { randomBytes } from 'node:crypto';
import { bareText, RpcError } from '../base/errors.ts';
import { HANDSHAKE_TIMEOUT_MS, Handshake, NONCE_BYTES, RECORD_HEAD_BYTES, STORE_GROUP } from '../security/handshake.ts';
import type { Keys } from '../security/secret.ts';
import type { Connection } from '../transports/transport.ts';
import { ByteReader, type ReadProgram } from './byte-reader.ts';
import {
  ENTRY_OVERHEAD_BYTES,
  MAX_CLIENT_BACKLOG_BYTES,
  MAX_KEY_BYTES,
  MAX_LEASES_PER_CLIENT,
  MAX_PARKED_BYTES_PER_CLIENT,
  MAX_PARKED_PER_CLIENT,
} from './limits.ts';
import {
  FRAME_HEAD_BYTES,
  MAX_FRAME_BYTES,
  MAX_LIST_BYTES,
  Op,
  Reader,
  blob,
  frame,
  i64,
  u32,
  u8,
} from './protocol.ts';
import type { StoreState } from './state.ts';
import { TorchOp, keyOfBytes, serveTorch, type TorchHost } from './torch-ops.ts';

/** What a session needs of its server. */
export interface SessionHost {
  readonly state: StoreState;
  readonly keys: Keys | undefined;
  /** Whether clients that prove nothing may use torch's operations. */
  readonly torch: boolean;
  /** The session is through its handshake. */
  admitted(session: StoreSession): void;
  ended(session: StoreSession): void;
  grant(session: StoreSession, ttlMs: number): { id: number; token: Uint8Array };
  /** False when there is no such lease. */
  hold(session: StoreSession, id: number, token: Uint8Array): boolean;
  revoke(id: number, token: Uint8Array): void;
  barrier(key: string, worldSize: bigint, release: () => void): () => void;
}

const AUTH_FIRST_BYTE = 0x42;
export const LEASE_TOKEN_BYTES = 8;

/** A wait or a watch, and the bytes of keys that a wait names. */
interface Parked {
  readonly cancel: () => void;
  readonly bytes: number;
}

/** States: *proving* → *serving* → *ended*; any breach of the protocol ends it, and nothing but it. */
export class StoreSession {
  readonly connection: Connection;
  /** Leases this connection holds. */
  readonly held = new Set<number>();
  private readonly host: SessionHost;
  private readonly parked = new Map<number, Parked>();
  private parkedBytes = 0;
  private torchWait: (() => void) | undefined;
  private readonly deadline: NodeJS.Timeout;
  private over = false;
  /** It does not read, and is being cut off. */
  private isDeaf = false;
  private readonly torchHost: TorchHost;

  constructor(connection: Connection, host: SessionHost) {
    this.connection = connection;
    this.host = host;
    this.deadline = setTimeout(() => this.connection.destroy(), HANDSHAKE_TIMEOUT_MS);
    this.torchHost = {
      state: host.state,
      send: (bytes) => this.send(bytes),
      park: (cancel) => {
        this.torchWait = cancel;
      },
      unpark: () => {
        const cancel = this.torchWait;
        this.torchWait = undefined;
        cancel?.();
        return cancel !== undefined;
      },
      barrier: (key, worldSize, release) => host.barrier(key, worldSize, release),
    };
    connection.attach(new ByteReader(this.program(), () => this.end()));
  }

  send(bytes: Uint8Array): void {
    if (this.over || this.isDeaf) return;
    this.connection.write([bytes]);
    if (this.connection.bufferedBytes > MAX_CLIENT_BACKLOG_BYTES) {
      this.isDeaf = true;
      this.connection.destroy(new RpcError('resource-exhausted', 'a client of the store does not read'));
    }
  }

  private end(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.deadline);
    this.torchWait?.();
    for (const { cancel } of this.parked.values()) cancel();
    this.parked.clear();
    this.host.ended(this);
  }

  private *program(): ReadProgram {
    const first = (yield 1)[0] as number;
    if (first === AUTH_FIRST_BYTE) {
      if (!(yield* this.prove(first))) return;
    } else if (!this.host.torch || first !== TorchOp.VALIDATE) {
      throw new RpcError('unauthenticated', 'the first byte is of no client');
    } else {
      yield* serveTorch(first, this.torchHost);
    }
    clearTimeout(this.deadline);
    this.host.admitted(this);
    for (;;) {
      const op = (yield 1)[0] as number;
      if (op < Op.GET) yield* serveTorch(op, this.torchHost);
      else yield* this.request(op);
    }
  }

  private *prove(first: number): Generator<number, boolean, Uint8Array> {
    const nonce = randomBytes(NONCE_BYTES);
    const { authenticated, binding } = this.connection.protection;
    const keys = authenticated ? undefined : this.host.keys;
    const handshake = new Handshake({ role: 'acceptor', group: STORE_GROUP, keys, nonce, channelBinding: binding });
    let head = new Uint8Array(RECORD_HEAD_BYTES);
    head[0] = first;
    head.set(yield RECORD_HEAD_BYTES - 1, 1);
    for (;;) {
      const length = handshake.bodyLength(head);
      if (typeof length !== 'number') throw length;
      const record = new Uint8Array(RECORD_HEAD_BYTES + length);
      record.set(head);
      record.set(yield length, RECORD_HEAD_BYTES);
      for (const effect of handshake.receive(record)) {
        if (effect.type === 'send') this.send(effect.record);
        if (effect.type === 'done') return true;
        if (effect.type === 'failed') {
          this.connection.attach(undefined);
          this.connection.close();
          this.end();
          return false;
        }
      }
      head = (yield RECORD_HEAD_BYTES).slice();
    }
  }

  private *request(op: number): Generator<number, void, Uint8Array> {
    const head = new Reader(yield FRAME_HEAD_BYTES - 1);
    const length = head.u32();
    const id = head.u32();
    if (length > MAX_FRAME_BYTES)
      throw new RpcError('protocol-error', `a frame of ${length} bytes, at most ${MAX_FRAME_BYTES} are taken`);
    const body = new Reader(length === 0 ? new Uint8Array(0) : yield length);
    try {
      const parts = this.perform(op, id, body);
      if (parts !== undefined) this.send(frame(Op.REPLY, id, [u8(0), ...parts]));
    } catch (error) {
      if (!(error instanceof RpcError) || error.code === 'protocol-error') throw error;
      const text = bareText(error.code, error.message);
      this.send(frame(Op.REPLY, id, [u8(1), blob(Buffer.from(error.code)), blob(Buffer.from(text))]));
    }
  }

  /** The parts of the reply; undefined when it comes later, or never. */
  private perform(op: number, id: number, body: Reader): readonly Uint8Array[] | undefined {
    const { state } = this.host;
    switch (op) {
      case Op.GET:
        return optional(state.get(key(body)));
      case Op.SET:
        state.set(key(body), body.blob(), body.u32() || undefined);
        return [];
      case Op.ADD:
        return [i64(state.add(key(body), body.i64()))];
      case Op.COMPARE_AND_SET: {
        const name = key(body);
        const expected = body.u8() === 1 ? body.blob() : null;
        const result = state.compareAndSet(name, expected, body.blob(), body.u32() || undefined);
        return [u8(result.ok ? 1 : 0), ...optional(result.current)];
      }
      case Op.DELETE:
        return [u8(state.delete(key(body)) ? 1 : 0)];
      case Op.LIST:
        return this.list(key(body));
      case Op.WAIT:
        return this.wait(id, body);
      case Op.WATCH:
        return this.watch(id, key(body));
      case Op.CANCEL:
        this.unpark(id)?.cancel();
        return undefined;
      default:
        return this.performLease(op, body);
    }
  }

  private performLease(op: number, body: Reader): readonly Uint8Array[] {
    switch (op) {
      case Op.GRANT: {
        if (this.held.size >= MAX_LEASES_PER_CLIENT)
          throw new RpcError('resource-exhausted', `a client holds at most ${MAX_LEASES_PER_CLIENT} leases`);
        const lease = this.host.grant(this, body.u32());
        return [u32(lease.id), lease.token];
      }
      case Op.HOLD: {
        const id = body.u32();
        const token = body.blob(LEASE_TOKEN_BYTES);
        const name = key(body);
        const value = body.blob();
        const alive = this.host.hold(this, id, token);
        if (alive && name !== '') this.host.state.set(name, value, id);
        return [u8(alive ? 1 : 0)];
      }
      case Op.REVOKE:
        this.host.revoke(body.u32(), body.blob(LEASE_TOKEN_BYTES));
        return [];
      default:
        throw new RpcError('protocol-error', `an unknown operation ${op}`);
    }
  }

  private list(prefix: string): Uint8Array[] {
    const found = this.host.state.list(prefix);
    const total = found.reduce((sum, [name, value]) => sum + name.length + value.byteLength, 0);
    if (total > MAX_LIST_BYTES)
      throw new RpcError('resource-exhausted', `a list of ${total} bytes, at most ${MAX_LIST_BYTES} are sent`);
    return [u32(found.length), ...found.flatMap(([name, value]) => [blob(keyBytes(name)), blob(value)])];
  }

  private wait(id: number, body: Reader): readonly Uint8Array[] | undefined {
    this.checkParked(id);
    const names: string[] = [];
    for (let left = body.count(4); left > 0; left--) names.push(key(body));
    const bytes = names.reduce((sum, name) => sum + name.length + ENTRY_OVERHEAD_BYTES, 0);
    if (this.parkedBytes + bytes > MAX_PARKED_BYTES_PER_CLIENT) {
      const text = `the waits of a client name at most ${MAX_PARKED_BYTES_PER_CLIENT} bytes of keys`;
      throw new RpcError('resource-exhausted', text);
    }
    let done = false;
    const cancel = this.host.state.wait(names, () => {
      done = true;
      this.unpark(id);
      this.send(frame(Op.REPLY, id, [u8(0)]));
    });
    if (!done) this.park(id, { cancel, bytes });
    return undefined;
  }

  private watch(id: number, prefix: string): readonly Uint8Array[] {
    this.checkParked(id);
    const cancel = this.host.state.watch(prefix, (name, value) => {
      // A client may watch the same thousands of times: what it is not sent is not copied for it either.
      if (this.isDeaf) return;
      const parts = [blob(keyBytes(name)), blob(value ?? new Uint8Array(0))];
      this.send(frame(Op.EVENT, id, [u8(value === undefined ? 0 : 1), ...parts]));
    });
    this.park(id, { cancel, bytes: 0 });
    return [];
  }

  private park(id: number, parked: Parked): void {
    this.parked.set(id, parked);
    this.parkedBytes += parked.bytes;
  }

  private unpark(id: number): Parked | undefined {
    const parked = this.parked.get(id);
    this.parked.delete(id);
    this.parkedBytes -= parked?.bytes ?? 0;
    return parked;
  }

  private checkParked(id: number): void {
    if (this.parked.has(id)) throw new RpcError('protocol-error', `request ${id} is already waiting`);
    if (this.parked.size >= MAX_PARKED_PER_CLIENT) {
      throw new RpcError('resource-exhausted', `a client has at most ${MAX_PARKED_PER_CLIENT} waits and watches`);
    }
  }
}

function key(body: Reader): string {
  return keyOfBytes(body.blob(MAX_KEY_BYTES));
}

function keyBytes(key: string): Uint8Array {
  return Buffer.from(key, 'latin1');
}

function optional(value: Uint8Array | undefined): Uint8Array[] {
  return value === undefined ? [u8(0)] : [u8(1), blob(value)];
}
