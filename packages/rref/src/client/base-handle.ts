/** @file What all handles of RRefs are, whatever kind of group they are of: an identity, a lifetime, a creation that may fail. */
import { RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { DISPOSE } from '@backwire/tensor/internal';
import { waitFor } from '../deadline.ts';
import { errorOf } from '../failure.ts';
import { BRAND } from '../handle-brand.ts';
import type { OwnedValue } from '../owner/owned-value.ts';
import { formatId, workerOf, type GlobalId } from '../protocol/ids.ts';
import type { UserFork } from '../protocol/user-table.ts';
import type { RRefId } from '../types.ts';

/** A value that is here, or a fork of one that is elsewhere. */
export type HandleTarget =
  { readonly rref: GlobalId; readonly owned: OwnedValue } | { readonly rref: GlobalId; readonly fork: UserFork };

/** What a handle asks of the agent that made it. */
export interface HandleAgent {
  readonly self: WorkerInfo;
  readonly closed: boolean;
  workerOf(id: number): WorkerInfo;
  timeoutMs(options: CallOptions): number;
}

interface Deferred {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

/** Made by one agent, and usable only there. */
export abstract class BaseHandle {
  declare readonly [BRAND]: true;
  // Private, so that nothing prints, clones or compares the whole agent with the handle.
  readonly #agent: HandleAgent;
  readonly #target: HandleTarget;
  /** Set while this worker waits for the answer to the call that creates the value. */
  #creation: Deferred | undefined;
  #creationError: { readonly error: unknown } | undefined;
  #mine = false;
  #uses = 0;
  #disposed = false;

  constructor(agent: HandleAgent, target: HandleTarget) {
    this.#agent = agent;
    this.#target = target;
  }

  get target(): HandleTarget {
    return this.#target;
  }

  /** Set on the owner. */
  get owned(): OwnedValue | undefined {
    return 'owned' in this.#target ? this.#target.owned : undefined;
  }

  /** Set elsewhere. */
  get fork(): UserFork | undefined {
    return 'fork' in this.#target ? this.#target.fork : undefined;
  }

  get rref(): GlobalId {
    return this.#target.rref;
  }

  get id(): RRefId {
    return { createdOn: workerOf(this.rref.member), localId: BigInt(this.rref.local) };
  }

  isOwner(): boolean {
    return this.fork === undefined;
  }

  owner(): WorkerInfo {
    return this.fork === undefined ? this.#agent.self : this.#agent.workerOf(this.fork.owner);
  }

  ownerName(): string {
    return this.owner().name;
  }

  toString(): string {
    if (this.fork === undefined) return `OwnerRRef(${formatId(this.rref)})`;
    return `UserRRef(RRefId = ${formatId(this.rref)}, ForkId = ${formatId(this.fork)})`;
  }

  /** Where it is printed as JSON, in logs above all, it says what it is; it travels in calls only. */
  toJSON(): string {
    return this.toString();
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }

  confirmedByOwner(): boolean {
    return this.fork?.confirmed ?? true;
  }

  /** This worker sent the call that creates the value, and is yet to hear of it. */
  creationBegins(): void {
    this.#mine = true;
    let resolve: () => void = () => undefined;
    const promise = new Promise<void>((settle) => (resolve = settle));
    this.#creation = { promise, resolve };
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

  /** Whether this is the handle of `remote()` itself, which hears how the creation ended; others have to ask. */
  get isCreator(): boolean {
    return this.#mine;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#releaseIfUnused();
  }

  [DISPOSE](): void {
    this.dispose();
  }

  /** Holds the handle while `run` is at work: neither `dispose` nor the collector lets go of it before. */
  async use<R>(operation: string, run: () => Promise<R>): Promise<R> {
    this.throwIfUnusable(`call ${operation} on it`);
    this.#uses++;
    try {
      return await run();
    } catch (error) {
      throw this.explained(error);
    } finally {
      // Naming `this` here also keeps the handle reachable until now.
      this.#uses--;
      this.#releaseIfUnused();
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

  /** It can be used, as far as it is known here. */
  protected get usable(): boolean {
    return !this.deleted && this.failure() === undefined;
  }

  private get deleted(): boolean {
    return this.#disposed || this.#agent.closed || this.fork?.phase === 'gone' || this.fork?.released === true;
  }

  /** Why there is no value, as far as it is known here. */
  failure(): { readonly error: unknown } | undefined {
    if (this.#creationError !== undefined) return this.#creationError;
    const failure = this.fork?.failure;
    return failure === undefined ? undefined : { error: errorOf(failure, this.owner()) };
  }

  /** @throws what the creation failed with, as far as this handle was told. */
  throwIfCreationFailed(): void {
    if (this.#creationError !== undefined) throw this.#creationError.error;
  }

  /** `promise`, or the failure of a creation that is under way, whichever comes first. */
  unlessCreationFails<R>(promise: Promise<R>): Promise<R> {
    const { creation } = this;
    if (creation === undefined) return promise;
    const either = new Promise<R>((resolve, reject) => {
      promise.then(resolve, reject);
      void creation.then(() => {
        if (this.#creationError !== undefined) reject(this.#creationError.error);
      });
    });
    // Who asked wrongly, with a time that is none, is told that, and waits no more.
    either.catch(() => undefined);
    return either;
  }

  /** A wait on this worker, bounded like a call. */
  protected wait<R>(promise: Promise<R>, options: CallOptions): Promise<R> {
    // Should the options be wrong, what becomes of the promise is nobody's.
    promise.catch(() => undefined);
    return waitFor(this.unlessCreationFails(promise), this.#agent.timeoutMs(options), options.signal);
  }

  /** The failure of `localValue` where there is no value. */
  protected notHere(): Promise<never> {
    const forkId = this.fork === undefined ? '' : formatId(this.fork);
    const where = `on user ${this.#agent.self.toString()}. Call it on owner ${this.owner().toString()}`;
    const text = `For UserRRef(rref_id=${formatId(this.rref)}, fork_id=${forkId}), can't call localValue() ${where}`;
    return Promise.reject(new RpcError('failed-precondition', text));
  }

  /** What programs see of a failure of one of its operations. */
  protected explained(error: unknown): unknown {
    return error;
  }

  /** The program has let go of it, and nothing is at work any more. */
  protected abstract release(): void;

  #releaseIfUnused(): void {
    if (this.#disposed && this.#uses === 0) this.release();
  }
}
Object.defineProperty(BaseHandle.prototype, BRAND, { value: true });
// Scopes free it: those of handlers that were given it.
Object.defineProperty(BaseHandle.prototype, Symbol.for('backwire.scoped'), { value: true });
