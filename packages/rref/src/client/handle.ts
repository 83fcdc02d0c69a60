/** @file The RRef that programs hold: one class for the owner's own handles and for those of users. */
import { RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { CALL_OPTIONS, refuseUnknown, type ExtensionHost, type RpcMessage } from '@backwire/rpc/internal';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import { waitFor } from '../deadline.ts';
import { errorOf } from '../failure.ts';
import { BRAND } from '../handle-brand.ts';
import type { MemberDirectory } from '../members.ts';
import type { Target } from '../messages/handle-transfer.ts';
import { encodeBackward, encodeFetch } from '../messages/request-codec.ts';
import { backwardHere } from '../owner/backward.ts';
import type { OwnedValue } from '../owner/owned-value.ts';
import { secondHandle, typeNameOf } from '../owner/referent.ts';
import { StandIn, type Within } from '../owner/stand-in.ts';
import { formatId, workerOf, type GlobalId } from '../protocol/ids.ts';
import type { UserFork } from '../protocol/user-table.ts';
import type { RemoteProxy, RRef, RRefId, RRefProxy } from '../types.ts';
import { createProxy } from './proxy.ts';
import { TypeQuestion } from './type-question.ts';

const BACKWARD_OPTIONS: ReadonlySet<string> = new Set([...CALL_OPTIONS, 'retainGraph']);

type Handle = RRefHandle<unknown>;
type Args = readonly unknown[];

/** What handles ask of owners; see `OwnerRequests`. */
interface Requests {
  ask(of: Handle, message: RpcMessage, options: CallOptions, name: string): Promise<Message>;
  askType(of: Handle, options: CallOptions): Promise<string>;
  callMethod(of: Handle, kind: 'sync' | 'async', method: string, args: Args, options: CallOptions): unknown;
  callMethodRemotely(of: Handle, method: string, args: Args, options: CallOptions): unknown;
  whenCreated(of: Handle, fork: UserFork, options: CallOptions): Promise<void>;
  ownerDied(of: Handle): RpcError;
  explain(of: Handle, error: unknown): unknown;
}

/** What a handle needs of the agent that made it. */
export interface HandleHost {
  readonly host: ExtensionHost;
  readonly members: MemberDirectory;
  readonly closed: boolean;
  readonly requests: Requests;
  /** The program has let go of a handle. */
  release(handle: object, fork: UserFork): void;
  /** The same on the owner, of a handle that held the value. */
  letGo(rref: GlobalId, owned: OwnedValue): void;
  onOwnerDied(fork: UserFork, listener: () => void): () => void;
  /** @throws RpcError 'failed-precondition' when the worker is known to lack the extension. */
  requireExtension(worker: WorkerInfo, extension: string): void;
}

interface Deferred {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

/** See `RRef`. Made by the session of one agent, and usable only there. */
export class RRefHandle<T> implements RRef<T> {
  declare readonly [BRAND]: true;
  // Private, so that nothing prints, clones or compares the whole agent with the handle.
  readonly #session: HandleHost;
  readonly #owned: OwnedValue | undefined;
  readonly #fork: UserFork | undefined;
  readonly #rref: GlobalId;
  #className: string | undefined;
  /** Set while this worker waits for the answer to the call that creates the value. */
  #creation: Deferred | undefined;
  #creationError: { readonly error: unknown } | undefined;
  /** This handle is that of `remote()` itself. */
  #mine = false;
  readonly #type: TypeQuestion;
  #uses = 0;
  #disposed = false;
  /** It counts among those of this worker who hold the value. */
  #holds = false;

  constructor(session: HandleHost, target: Target<OwnedValue>, type?: string) {
    this.#session = session;
    this.#owned = 'owned' in target ? target.owned : undefined;
    this.#fork = 'fork' in target ? target.fork : undefined;
    this.#rref = 'owned' in target ? target.rref : target.fork.rref;
    this.#type = new TypeQuestion(type);
  }

  get session(): HandleHost {
    return this.#session;
  }

  /** Set on the owner. */
  get owned(): OwnedValue | undefined {
    return this.#owned;
  }

  /** Set elsewhere. */
  get fork(): UserFork | undefined {
    return this.#fork;
  }

  get rref(): GlobalId {
    return this.#rref;
  }

  /** On the owner: the value is held until this handle is disposed. One that is only made to be sent does not hold it. */
  holdValue(): this {
    if (this.#owned !== undefined && !this.#holds) {
      this.#holds = true;
      this.#owned.hold();
    }
    return this;
  }

  /** This worker sent the call that creates the value, and is yet to hear of it. */
  creationBegins(): void {
    this.#mine = true;
    this.#creation = deferred();
  }

  /** It has heard. */
  creationEnds(failure?: { readonly error: unknown }): void {
    this.#mine = true;
    this.#creationError = failure;
    this.#creation?.resolve();
    this.#creation = undefined;
  }

  /** Resolves when nothing more will be heard of the creation; undefined when there is nothing to wait for. */
  get creation(): Promise<void> | undefined {
    return this.#creation?.promise;
  }

  get id(): RRefId {
    return { createdOn: workerOf(this.#rref.member), localId: BigInt(this.#rref.local) };
  }

  /** The class that this worker asked for, before anybody knows whether it could be made. */
  set className(name: string | undefined) {
    this.#className = name;
  }

  /** How traces call a method of the value. */
  nameOf(method: string): string {
    return `${this.#type.name ?? this.#className ?? 'RRef'}.${method}`;
  }

  /** Whether this is the handle of `remote()` itself, which hears how the creation ended; others have to ask. */
  get isCreator(): boolean {
    return this.#mine;
  }

  /** The type's name, if it is known here. */
  get knownType(): string | undefined {
    return this.#type.name;
  }

  isOwner(): boolean {
    return this.#fork === undefined;
  }

  owner(): WorkerInfo {
    return this.#fork === undefined ? this.#session.host.self : this.#session.members.worker(this.#fork.owner);
  }

  ownerName(): string {
    return this.owner().name;
  }

  toString(): string {
    if (this.#fork === undefined) return `OwnerRRef(${formatId(this.#rref)})`;
    return `UserRRef(RRefId = ${formatId(this.#rref)}, ForkId = ${formatId(this.#fork)})`;
  }

  /** Where it is printed as JSON, in logs above all, it says what it is; it travels in calls only. */
  toJSON(): string {
    return this.toString();
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }

  confirmedByOwner(): boolean {
    return this.#fork?.confirmed ?? true;
  }

  confirmed(options: CallOptions = {}): Promise<void> {
    return this.use('confirmed()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'confirmed()');
      if (this.#owned !== undefined) await this.local(this.#owned.wait(), options);
      else if (this.#fork !== undefined) await this.#session.requests.whenCreated(this, this.#fork, options);
    });
  }

  typeName(options?: CallOptions): Promise<string> {
    const shared = options === undefined ? this.#type.shared() : undefined;
    if (shared !== undefined && this.failure() === undefined && !this.deleted) return shared;
    const asked = this.use('type_name()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'typeName()');
      const type =
        this.#type.name ??
        (this.#owned === undefined
          ? await this.#session.requests.askType(this, options ?? {})
          : await this.here(this.#owned, options ?? {}, typeNameOf, (value, within) => value.typeName(within)));
      return this.#type.learn(type);
    });
    return options === undefined ? this.#type.share(asked) : asked;
  }

  toHere(options: CallOptions = {}): Promise<T> {
    return this.use('to_here()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'toHere()');
      if (this.#owned !== undefined)
        return (await this.here(this.#owned, options, secondHandle, (value, within) => value.fetch(within))) as T;
      const payload = encodeFetch(this.#rref, this.#session.host.self.id);
      const message = { type: MessageType.PYTHON_RREF_FETCH_CALL, id: 0n, payload, tensors: [] };
      const reply = await this.#session.requests.ask(this, message, options, 'to_here');
      return this.#session.host.decodeValue(reply.payload, reply.tensors, this.owner()) as T;
    });
  }

  localValue(options: CallOptions = {}): Promise<T> {
    const { fork, owned } = this;
    if (owned === undefined) {
      const forkId = fork === undefined ? '' : formatId(fork);
      const where = `on user ${this.#session.host.self.toString()}. Call it on owner ${this.owner().toString()}`;
      const text = `For UserRRef(rref_id=${formatId(this.#rref)}, fork_id=${forkId}), can't call localValue() ${where}`;
      return Promise.reject(new RpcError('failed-precondition', text));
    }
    return this.use('local_value()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'localValue()');
      const value = await this.local(owned.wait(), options);
      return (value instanceof StandIn ? value.local : value) as T;
    });
  }

  rpcSync(options: CallOptions = {}): RemoteProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'rpcSync() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethod(this, 'sync', method, args, options),
    ) as RemoteProxy<T>;
  }

  rpcAsync(options: CallOptions = {}): RemoteProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'rpcAsync() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethod(this, 'async', method, args, options),
    ) as RemoteProxy<T>;
  }

  remote(options: CallOptions = {}): RRefProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'remote() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethodRemotely(this, method, args, options),
    ) as RRefProxy<T>;
  }

  backward(contextId?: bigint, options: CallOptions & { retainGraph?: boolean } = {}): Promise<void> {
    return this.use('backward()', async () => {
      refuseUnknown(options, BACKWARD_OPTIONS, 'backward()');
      const retainGraph = options.retainGraph ?? false;
      if (this.#owned !== undefined) {
        const value = await this.local(this.#owned.wait(), options);
        await backwardHere(this.#session.host, value, contextId, { ...options, retainGraph });
        return;
      }
      if (contextId === undefined)
        throw new RpcError('failed-precondition', "User RRefs require 'dist_autograd_ctx_id' to be specified");
      this.#session.requireExtension(this.owner(), 'dist-autograd');
      const payload = encodeBackward(this.#rref, contextId, retainGraph);
      await this.#session.requests.ask(
        this,
        { type: MessageType.RREF_BACKWARD_REQ, id: 0n, payload, tensors: [] },
        options,
        'backward',
      );
    });
  }

  onOwnerDied(listener: () => void): () => void {
    return this.#fork === undefined ? () => undefined : this.#session.onOwnerDied(this.#fork, listener);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.releaseIfUnused();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Holds the handle while `run` is at work: neither `dispose` nor the collector lets go of it before. */
  async use<R>(operation: string, run: () => Promise<R>): Promise<R> {
    this.throwIfUnusable(`call ${operation} on it`);
    this.#uses++;
    try {
      return await run();
    } catch (error) {
      throw this.#session.requests.explain(this, error);
    } finally {
      // Naming `this` here also keeps the handle reachable until now.
      this.#uses--;
      this.releaseIfUnused();
    }
  }

  /** @throws why the handle cannot be used: its creation failed, its owner died, or it was deleted. */
  throwIfUnusable(what: string): void {
    const failure = this.failure();
    if (failure !== undefined) throw failure.error;
    this.throwIfDeleted(what);
  }

  /** @throws RpcError 'rref-released' when the program, or the end of the agent, has let go of the handle. */
  throwIfDeleted(what: string): void {
    if (this.deleted)
      throw new RpcError('rref-released', `${this.toString()} has been deleted. Cannot ${what} after deletion.`);
  }

  private get deleted(): boolean {
    return this.#disposed || this.#session.closed || this.#fork?.phase === 'gone' || this.#fork?.released === true;
  }

  /** Why there is no value, as far as it is known here: its owner died, or it was never made. */
  failure(): { readonly error: unknown } | undefined {
    const failure = this.#fork?.failure;
    if (failure?.code === 'owner-died') return { error: this.#session.requests.ownerDied(this) };
    if (this.#creationError !== undefined) return this.#creationError;
    return failure === undefined ? undefined : { error: errorOf(failure, this.owner()) };
  }

  private releaseIfUnused(): void {
    if (!this.#disposed || this.#uses > 0) return;
    if (this.#fork !== undefined) this.#session.release(this, this.#fork);
    else if (this.#holds && this.#owned !== undefined) {
      this.#holds = false;
      this.#session.letGo(this.#rref, this.#owned);
    }
  }

  /** @throws what the creation failed with, as far as this handle was told. */
  throwIfCreationFailed(): void {
    if (this.#creationError !== undefined) throw this.#creationError.error;
  }

  /** `promise`, or the failure of a creation that is under way, whichever comes first. */
  unlessCreationFails<R>(promise: Promise<R>): Promise<R> {
    const { creation } = this;
    if (creation === undefined) return promise;
    return new Promise<R>((resolve, reject) => {
      promise.then(resolve, reject);
      void creation.then(() => {
        if (this.#creationError !== undefined) reject(this.#creationError.error);
      });
    });
  }

  /** What `own` makes of the value, once it is there, or `asked` of what stands for it. */
  private async here<R>(
    owned: OwnedValue,
    options: CallOptions,
    own: (value: unknown) => R,
    asked: (value: StandIn, within: Within) => Promise<R>,
  ): Promise<R> {
    const { host } = this.#session;
    const [whole, started] = [host.timeoutMs(options), host.now()];
    const value = await this.local(owned.wait(), options);
    if (!(value instanceof StandIn)) return own(value);
    const timeoutMs = whole === 0 ? 0 : Math.max(1, Math.ceil(whole - (host.now() - started)));
    return asked(value, { timeoutMs, signal: options.signal });
  }

  /** A wait on this worker, bounded like a call. */
  private local<R>(promise: Promise<R>, options: CallOptions): Promise<R> {
    return waitFor(this.unlessCreationFails(promise), this.#session.host.timeoutMs(options), options.signal);
  }
}
Object.defineProperty(RRefHandle.prototype, BRAND, { value: true });
// Scopes free it: those of handlers that were given it.
Object.defineProperty(RRefHandle.prototype, Symbol.for('backwire.scoped'), { value: true });
Object.defineProperty(RRefHandle.prototype, Symbol.for('backwire.carried'), {
  value: 'RRefs travel in arguments and results of calls only, of an agent with the extension rrefs()',
});

function deferred(): Deferred {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}
