/** @file RRefs inside messages: what travels in their place, and what becomes of a handle whose message is never decoded. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import type { ExtensionValue } from '@backwire/rpc/internal';
import type { Cell } from './cell.ts';
import { isHandle, type RRefHandle } from './handle.ts';
import { IdMap, incarnationOf, workerOf, type GlobalId, type Site } from './protocol/ids.ts';
import type { Carried, Failure } from './protocol/messages.ts';
import type { UserFork } from './protocol/user-table.ts';
import type { RRefSession } from './session.ts';
import { decodeCarried, decodeId, encodeCarried, encodeId } from './wire-format.ts';

/** A handle that was delivered and that no value has asked for yet. */
type Waiting = { readonly rref: GlobalId; readonly cell: Cell } | { readonly fork: UserFork };

/** The plain form: the fork's id; with the name of the value's type where the sender knew it. */
type Plain = Uint8Array | readonly [id: Uint8Array, type: string];

const TAG = 'rref';

/** The part of a session that takes part in every message with an RRef or a creation in it. */
export class Carrier {
  readonly value: ExtensionValue;
  /** Creations that were refused at delivery, until their call is answered. */
  readonly refused = new IdMap<Failure>();
  private readonly session: RRefSession;
  private readonly waiting = new IdMap<Waiting>();

  constructor(session: RRefSession) {
    this.session = session;
    this.value = {
      tag: TAG,
      match: isHandle,
      encode: (value, to, addHeader) => this.encode(value as RRefHandle<unknown>, to, addHeader),
      decode: (plain, from, pending) => this.decode(plain, from, pending),
      lasting: (handle) => {
        const { site, local } = (handle as RRefHandle<unknown>).rref;
        return [workerOf(site), incarnationOf(site), local];
      },
      discard: (handle) => (handle as RRefHandle<unknown>).dispose(),
    };
  }

  /** An entry of a message was delivered. What is returned is called when its values have been decoded or never will be. */
  delivered(from: Site, entry: Uint8Array): (() => void) | undefined {
    const carried = decodeCarried(entry);
    const { worker } = this.session;
    if (carried.kind === 'create') {
      const refusal = worker.createArrived(from, carried);
      if (refusal === undefined) return undefined;
      this.refused.set(carried.rref, refusal);
      return () => this.later(() => this.refused.delete(carried.rref));
    }
    const arrival = worker.forkArrived(from, carried);
    if (arrival.kind === 'ignored') return undefined;
    const { fork } = carried;
    this.waiting.set(
      fork,
      arrival.kind === 'held'
        ? { fork: arrival.fork }
        : { rref: carried.rref, cell: this.session.cellOfEntry(arrival.entry) },
    );
    return () => this.later(() => this.drop(fork));
  }

  /** The message of this entry certainly never arrived. */
  undelivered(entry: Uint8Array): void {
    this.session.worker.unshare(decodeCarried(entry));
  }

  private encode(
    handle: RRefHandle<unknown>,
    to: WorkerInfo,
    addHeader: ((entry: Uint8Array) => void) | undefined,
  ): Plain {
    const { session } = this;
    if (handle.session !== session) {
      const [maker, sender] = [handle.session.host.name, session.host.name];
      throw new RpcError(
        'failed-precondition',
        `this RRef belongs to agent '${maker}'; agent '${sender}' cannot send it`,
      );
    }
    if (addHeader === undefined) {
      throw new RpcError(
        'failed-precondition',
        'Can not pickle rref in python pickler, rref can only be pickled when using RPC',
      );
    }
    handle.throwIfUnusable('call fork an UserRRef');
    session.requireExtension(to, 'rref');
    const carried = this.share(handle, session.sites.of(to));
    addHeader(encodeCarried(carried));
    const id = encodeId(carried.fork);
    return handle.knownType === undefined ? id : [id, handle.knownType];
  }

  private share(handle: RRefHandle<unknown>, to: Site): Carried & { kind: 'fork' } {
    const { session } = this;
    if (session.worker.isDead(to))
      throw new RpcError('peer-died', 'an RRef cannot be sent to a worker that was removed from the group');
    const carried =
      handle.cell !== undefined
        ? session.worker.shareOwned(handle.rref, handle.cell, to)
        : session.worker.shareHeld(handle.fork as UserFork, to);
    return carried as Carried & { kind: 'fork' };
  }

  private decode(plain: unknown, _from: WorkerInfo, pending: Promise<unknown>[] | undefined): RRefHandle<unknown> {
    const { id, type } = readPlain(plain);
    const found = this.waiting.get(id);
    if (found === undefined) throw new RpcError('decode-error', 'an RRef whose message has been dealt with already');
    this.waiting.delete(id);
    const handle = this.session.adopt(found, type);
    if ('fork' in found && !found.fork.settled) pending?.push(this.session.whenSettled(found.fork));
    return handle;
  }

  private drop(fork: GlobalId): void {
    const found = this.waiting.get(fork);
    if (found === undefined) return;
    this.waiting.delete(fork);
    if ('fork' in found) this.session.worker.users.release(found.fork);
  }

  /** A reply is decoded a few turns of the microtask queue after its delivery: what is then still unclaimed is let go. */
  private later(fn: () => void): void {
    setTimeout(() => {
      if (!this.session.closed) fn();
    }, 0);
  }
}

function readPlain(plain: unknown): { id: GlobalId; type: string | undefined } {
  const [bytes, type] = Array.isArray(plain) ? (plain as unknown[]) : [plain, undefined];
  if (!(bytes instanceof Uint8Array) || (type !== undefined && typeof type !== 'string'))
    throw new RpcError('decode-error', 'malformed RRef');
  return { id: decodeId(bytes), type };
}
