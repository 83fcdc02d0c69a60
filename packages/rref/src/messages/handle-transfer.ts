/** @file RRefs inside messages: what travels in their place, and what becomes of a handle whose message is never decoded. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import type { ExtensionValue } from '@backwire/rpc/internal';
import { DISPOSE } from '@backwire/tensor/internal';
import { asElsewhere } from '../failure.ts';
import { isHandle } from '../handle-brand.ts';
import type { MemberDirectory } from '../members.ts';
import { EXTENSION_NAME } from '../names.ts';
import { IdMap, incarnationOf, workerOf, type GlobalId, type MemberKey } from '../protocol/ids.ts';
import type { Carried, Failure } from '../protocol/messages.ts';
import type { OwnerEntry } from '../protocol/owner-table.ts';
import type { UserFork } from '../protocol/user-table.ts';
import type { ProtocolWorker } from '../protocol/worker.ts';
import { decodeCarried, decodeId, encodeCarried, encodeId } from './entry-codec.ts';

/** What a handle refers to: on the owner the value, elsewhere the fork that this worker holds. */
export type Target<V> = { readonly rref: GlobalId; readonly owned: V } | { readonly fork: UserFork };

/** What matters of a handle that is sent. */
interface SentHandle<V> extends Disposable {
  /** Who made it. */
  readonly session: { readonly host: { readonly name: string } };
  readonly rref: GlobalId;
  /** Set on the owner. */
  readonly owned: V | undefined;
  /** Set elsewhere. */
  readonly fork: UserFork | undefined;
  readonly knownType: string | undefined;
  failure(): { readonly error: unknown } | undefined;
  throwIfDeleted(what: string): void;
}

/** What the transfer of handles needs of the worker that it happens on. */
export interface TransferHost<V> {
  readonly host: { readonly name: string };
  readonly closed: boolean;
  readonly members: MemberDirectory;
  readonly worker: ProtocolWorker<V>;
  /** The value of an entry; made in wait when there is none yet. */
  valueOf(entry: OwnerEntry<V>): V;
  /** What has arrived refers to the value, */
  hold(owned: V): void;
  /** and does no more. */
  letGo(rref: GlobalId, owned: V): void;
  /** The handle for what has arrived. */
  adopt(target: Target<V>, type?: string): object;
  whenSettled(fork: UserFork): Promise<void>;
  /** @throws RpcError 'failed-precondition' when the worker is known to lack the extension. */
  requireExtension(worker: WorkerInfo, extension: string): void;
}

/** The plain form: the fork's id; with the name of the value's type where the sender knew it. */
type Plain = Uint8Array | readonly [id: Uint8Array, type: string];

const TAG = 'rref';

/** Takes part in every message with an RRef or a creation in it. `V` is the value kept with an owned RRef. */
export class HandleTransfer<V> {
  readonly value: ExtensionValue;
  /** Creations that were refused at delivery, until their call is answered. */
  readonly refused = new IdMap<Failure>();
  private readonly session: TransferHost<V>;
  /** Handles that were delivered and that no value has asked for yet. */
  private readonly waiting = new IdMap<Target<V>>();

  constructor(session: TransferHost<V>) {
    this.session = session;
    this.value = {
      tag: TAG,
      match: isHandle,
      encode: (value, to, addHeader) => this.encode(value as SentHandle<V>, to, addHeader),
      decode: (plain, _from, pending) => this.decode(plain, pending),
      lasting: (handle) => {
        const { member, local } = (handle as SentHandle<V>).rref;
        return [workerOf(member), incarnationOf(member), local];
      },
      discard: (handle) => (handle as SentHandle<V>)[DISPOSE](),
    };
  }

  /** An entry of a message was delivered. What is returned is called when its values have been decoded or never will be. */
  delivered(from: MemberKey, entry: Uint8Array): (() => void) | undefined {
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
    if (arrival.kind === 'held') this.waiting.set(fork, { fork: arrival.fork });
    else {
      const owned = this.session.valueOf(arrival.entry);
      // Its sender may let go of it before the message is read.
      this.session.hold(owned);
      this.waiting.set(fork, { rref: carried.rref, owned });
    }
    return () => this.later(() => this.drop(fork));
  }

  /** The message of this entry certainly never arrived. */
  undelivered(entry: Uint8Array): void {
    this.session.worker.unshare(decodeCarried(entry));
  }

  private encode(handle: SentHandle<V>, to: WorkerInfo, addHeader: ((entry: Uint8Array) => void) | undefined): Plain {
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
    const failure = handle.failure();
    if (failure !== undefined) throw asElsewhere(failure.error);
    handle.throwIfDeleted('call fork an UserRRef');
    session.requireExtension(to, EXTENSION_NAME);
    const carried = this.share(handle, session.members.of(to));
    addHeader(encodeCarried(carried));
    const id = encodeId(carried.fork);
    return handle.knownType === undefined ? id : [id, handle.knownType];
  }

  private share(handle: SentHandle<V>, to: MemberKey): Carried & { kind: 'fork' } {
    const { session } = this;
    if (session.worker.isDead(to))
      throw asElsewhere(
        new RpcError('peer-died', 'an RRef cannot be sent to a worker that was removed from the group'),
      );
    return handle.owned !== undefined
      ? session.worker.shareOwned(handle.rref, handle.owned, to)
      : session.worker.shareHeld(handle.fork as UserFork, to);
  }

  private decode(plain: unknown, pending: Promise<unknown>[] | undefined): object {
    const { id, type } = readPlain(plain);
    const found = this.waiting.get(id);
    if (found === undefined) throw new RpcError('decode-error', 'an RRef whose message has been dealt with already');
    this.waiting.delete(id);
    const handle = this.session.adopt(found, type);
    if ('owned' in found) this.session.letGo(found.rref, found.owned);
    if ('fork' in found && !found.fork.settled) pending?.push(this.session.whenSettled(found.fork));
    return handle;
  }

  private drop(fork: GlobalId): void {
    const found = this.waiting.get(fork);
    if (found === undefined) return;
    this.waiting.delete(fork);
    if ('fork' in found) this.session.worker.users.release(found.fork);
    else this.session.letGo(found.rref, found.owned);
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
