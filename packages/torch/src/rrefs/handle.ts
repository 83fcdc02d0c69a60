/** @file The RRef that programs hold in a torch group: one class for the owner's own handles and for those of users. */
import { RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { CALL_OPTIONS, refuseUnknown } from '@backwire/rpc/internal';
import {
  BRAND,
  TypeQuestion,
  createProxy,
  errorOf,
  formatId,
  secondHandle,
  typeNameOf,
  waitFor,
  type Answer,
  type GlobalId,
  type OwnedValue,
  type UserFork,
} from '@backwire/rref/internal';
import type { RRef, RRefId, RRefProxy, RemoteProxy } from '@backwire/rref';
import { Tensor } from '@backwire/tensor';

/** The type of what Python functions make; such values are fetched as pickles. */
export const PYTHON_OBJECT = 'PyObject';
export const TENSOR = 'Tensor';

/** What a handle needs of the agent that made it. */
export interface HandleHost {
  readonly self: WorkerInfo;
  readonly closed: boolean;
  workerOf(id: number): WorkerInfo;
  timeoutMs(options: CallOptions): number;
  fetch(handle: TorchRRef<unknown>, options: CallOptions): Promise<unknown>;
  typeName(handle: TorchRRef<unknown>, options: CallOptions): Promise<string>;
  invoke(
    handle: TorchRRef<unknown>,
    kind: 'sync' | 'async',
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): Answer;
  invokeRemotely(
    handle: TorchRRef<unknown>,
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): RRef<unknown>;
  backward(
    handle: TorchRRef<unknown>,
    contextId: bigint,
    options: CallOptions & { retainGraph: boolean },
  ): Promise<void>;
  backwardHere(value: Tensor, contextId: bigint, options: CallOptions & { retainGraph: boolean }): Promise<void>;
  whenSettled(fork: UserFork): Promise<void>;
  release(handle: object, fork: UserFork): void;
}

/** What a handle is of: a value that is here, or a fork of one that is elsewhere. */
export type Target =
  { readonly rref: GlobalId; readonly owned: OwnedValue } | { readonly rref: GlobalId; readonly fork: UserFork };

/** See `RRef`. Made by one agent, and usable only there. */
export class TorchRRef<T> implements RRef<T> {
  declare readonly [BRAND]: true;
  // Private, so that nothing prints, clones or compares the whole agent with the handle.
  readonly #host: HandleHost;
  readonly #target: Target;
  /** torch's name for the type of the value. */
  readonly #type: string;
  /** The name of its class. */
  readonly #className = new TypeQuestion();
  /** Settles when the answer to the call that creates the value has come. */
  #creation: Promise<void> | undefined;
  #creationError: { readonly error: unknown } | undefined;
  #uses = 0;
  #disposed = false;

  constructor(host: HandleHost, target: Target, type: string) {
    this.#host = host;
    this.#target = target;
    this.#type = type;
  }

  get host(): HandleHost {
    return this.#host;
  }

  get target(): Target {
    return this.#target;
  }

  get fork(): UserFork | undefined {
    return 'fork' in this.#target ? this.#target.fork : undefined;
  }

  get owned(): OwnedValue | undefined {
    return 'owned' in this.#target ? this.#target.owned : undefined;
  }

  /** 'PyObject', 'Tensor', or a type of TorchScript. */
  get torchType(): string {
    return this.#type;
  }

  /** Follows the call that creates the value. Never rejects where nobody listens. */
  follow(creation: Promise<unknown>): void {
    this.#creation = creation.then(
      () => {
        this.#creation = undefined;
      },
      (error: unknown) => {
        this.#creation = undefined;
        this.#creationError = { error };
      },
    );
  }

  /** The creation that is under way. */
  get creation(): Promise<void> | undefined {
    return this.#creation;
  }

  get id(): RRefId {
    const { member, local } = this.#target.rref;
    return { createdOn: member, localId: BigInt(local) };
  }

  isOwner(): boolean {
    return this.fork === undefined;
  }

  owner(): WorkerInfo {
    return this.fork === undefined ? this.#host.self : this.#host.workerOf(this.fork.owner);
  }

  ownerName(): string {
    return this.owner().name;
  }

  toString(): string {
    const rref = formatId(this.#target.rref);
    return this.fork === undefined
      ? `OwnerRRef(${rref})`
      : `UserRRef(RRefId = ${rref}, ForkId = ${formatId(this.fork)})`;
  }

  toJSON(): string {
    return this.toString();
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }

  confirmedByOwner(): boolean {
    return this.fork?.confirmed ?? true;
  }

  confirmed(options: CallOptions = {}): Promise<void> {
    return this.use('confirmed()', async () => {
      const { fork, owned } = this;
      if (owned !== undefined) await this.wait(owned.wait(), options);
      else if (fork !== undefined) {
        await this.wait(this.#host.whenSettled(fork), options);
        this.throwIfFailed();
        // Whether there is a value is known to whoever is asked for its type.
        this.#className.learn(this.#className.name ?? (await this.#host.typeName(this, options)));
      }
    });
  }

  typeName(options?: CallOptions): Promise<string> {
    const shared = options === undefined ? this.#className.shared() : undefined;
    if (shared !== undefined && this.isUsable) return shared;
    const asked = this.use('type_name()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'typeName()');
      const { owned } = this;
      const name =
        this.#className.name ??
        (owned === undefined
          ? await this.#host.typeName(this, options ?? {})
          : typeNameOf(await this.wait(owned.wait(), options ?? {})));
      return this.#className.learn(name);
    });
    return options === undefined ? this.#className.share(asked) : asked;
  }

  toHere(options: CallOptions = {}): Promise<T> {
    return this.use('to_here()', async () => {
      const { owned } = this;
      if (owned !== undefined) return secondHandle(await this.wait(owned.wait(), options)) as T;
      return (await this.wait(this.#host.fetch(this as TorchRRef<unknown>, options), options)) as T;
    });
  }

  localValue(options: CallOptions = {}): Promise<T> {
    const { fork, owned } = this;
    if (owned !== undefined)
      return this.use('local_value()', async () => (await this.wait(owned.wait(), options)) as T);
    const forkId = fork === undefined ? '' : formatId(fork);
    const where = `on user ${this.#host.self.toString()}. Call it on owner ${this.owner().toString()}`;
    const text = `For UserRRef(rref_id=${formatId(this.#target.rref)}, fork_id=${forkId}), can't call localValue() ${where}`;
    return Promise.reject(new RpcError('failed-precondition', text));
  }

  rpcSync(options: CallOptions = {}): RemoteProxy<T> {
    return this.proxy('sync', options);
  }

  rpcAsync(options: CallOptions = {}): RemoteProxy<T> {
    return this.proxy('async', options);
  }

  remote(options: CallOptions = {}): RRefProxy<T> {
    return createProxy((method, args) => this.#host.invokeRemotely(this, method, args, options)) as RRefProxy<T>;
  }

  backward(contextId?: bigint, options: CallOptions & { retainGraph?: boolean } = {}): Promise<void> {
    return this.use('backward()', async () => {
      const limits = { ...options, retainGraph: options.retainGraph ?? false };
      const { owned } = this;
      if (owned === undefined) {
        if (contextId === undefined)
          throw new RpcError('failed-precondition', "User RRefs require 'dist_autograd_ctx_id' to be specified");
        return this.#host.backward(this, contextId, limits);
      }
      const value = await this.wait(owned.wait(), options);
      if (!(value instanceof Tensor))
        throw new RpcError('failed-precondition', 'RRef should contain a tensor for .backward()');
      if (contextId !== undefined) return this.#host.backwardHere(value as Tensor, contextId, limits);
      value.backward(undefined, { retainGraph: limits.retainGraph });
    });
  }

  /** torch groups do not hear of deaths: it is never called. */
  onOwnerDied(_listener: () => void): () => void {
    return () => undefined;
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
    } finally {
      // Naming `this` here also keeps the handle reachable until now.
      this.#uses--;
      this.releaseIfUnused();
    }
  }

  /** @throws why the handle cannot be used: its creation failed, or it was deleted. */
  throwIfUnusable(what: string): void {
    this.throwIfFailed();
    if (this.isHeld) return;
    throw new RpcError('rref-released', `${this.toString()} has been deleted. Cannot ${what} after deletion.`);
  }

  /** Neither the program nor the end of the agent has let go of it. */
  private get isHeld(): boolean {
    const { fork } = this;
    return !this.#disposed && !this.#host.closed && fork?.phase !== 'gone' && fork?.released !== true;
  }

  private get isUsable(): boolean {
    return this.isHeld && this.#creationError === undefined && this.fork?.failure === undefined;
  }

  private throwIfFailed(): void {
    if (this.#creationError !== undefined) throw this.#creationError.error;
    const failure = this.fork?.failure;
    if (failure !== undefined) throw errorOf(failure, this.owner());
  }

  private proxy(kind: 'sync' | 'async', options: CallOptions): RemoteProxy<T> {
    return createProxy((method, args) => this.#host.invoke(this, kind, method, args, options)) as RemoteProxy<T>;
  }

  private releaseIfUnused(): void {
    if (this.#disposed && this.#uses === 0 && this.fork !== undefined) this.#host.release(this, this.fork);
  }

  /** `promise`, or the failure of the creation that is under way, whichever comes first; bounded like a call. */
  private wait<R>(promise: Promise<R>, options: CallOptions): Promise<R> {
    return waitFor(this.unlessCreationFails(promise), this.#host.timeoutMs(options), options.signal);
  }

  private unlessCreationFails<R>(promise: Promise<R>): Promise<R> {
    const creation = this.#creation;
    if (creation === undefined) return promise;
    return new Promise<R>((resolve, reject) => {
      promise.then(resolve, reject);
      void creation.then(() => {
        if (this.#creationError !== undefined) reject(this.#creationError.error);
      });
    });
  }
}
Object.defineProperty(TorchRRef.prototype, BRAND, { value: true });
// Scopes free it: those of handlers that were given it.
Object.defineProperty(TorchRRef.prototype, Symbol.for('backwire.scoped'), { value: true });
Object.defineProperty(TorchRRef.prototype, Symbol.for('backwire.carried'), {
  value: 'RRefs of a torch group travel in its calls only',
});
