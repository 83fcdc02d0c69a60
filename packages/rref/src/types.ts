/** @file What an RRef is to the program that holds it. */
import type { Tensor } from '@backwire/tensor';
import type { AnyFn, CallOptions, WorkerInfo } from '@backwire/rpc';
import type { NotGenerator } from '@backwire/rpc/internal';

/** Unique in the group: the worker that drew it, and a counter there. */
export interface RRefId {
  readonly createdOn: number;
  readonly localId: bigint;
}

type Hidden = 'dispose' | 'then' | 'toJSON' | 'constructor' | 'backward' | 'registerHook' | 'toTf' | `_${string}`;
type Result<R> = [R] extends [never]
  ? Promise<never>
  : R extends AsyncGenerator<infer I> | Generator<infer I>
    ? AsyncGenerator<I, void, void>
    : Promise<Awaited<R>>;

/**
 * The methods that can be called from elsewhere: public ones. Lists have none: their methods are not published, and listing them here
 * would make an RRef of a list of X unfit where an RRef of a list of a wider type is wanted.
 */
type MethodNames<T> = T extends readonly unknown[]
  ? never
  : keyof {
      [K in keyof T as K extends string ? (K extends Hidden ? never : T[K] extends AnyFn ? K : never) : never]: true;
    };

/** A method as it is called from elsewhere. */
type Called<A extends readonly unknown[], R> = (...args: A) => Result<R>;
/** The same, leaving the result behind. What a generator yields cannot be left; the compiler shows why where one is called. */
type Kept<A extends readonly unknown[], R> =
  unknown extends NotGenerator<R>
    ? (...args: A) => RRef<Awaited<R>>
    : 'a generator is called through rpcSync() of the RRef';

/**
 * The methods of the remote value; calling one runs it on the owner and answers with a promise, a generator method with a stream. One with
 * several signatures has its last four.
 */
export type RemoteProxy<T> = {
  readonly [K in MethodNames<T> & keyof T]: T[K] extends {
    (...args: infer A): infer R;
    (...args: infer B): infer S;
    (...args: infer C): infer U;
    (...args: infer D): infer V;
  }
    ? Called<A, R> & Called<B, S> & Called<C, U> & Called<D, V>
    : never;
};

/** The same, where each result stays on the owner behind an RRef of its own. */
export type RRefProxy<T> = {
  readonly [K in MethodNames<T> & keyof T]: T[K] extends {
    (...args: infer A): infer R;
    (...args: infer B): infer S;
    (...args: infer C): infer U;
    (...args: infer D): infer V;
  }
    ? Kept<A, R> & Kept<B, S> & Kept<C, U> & Kept<D, V>
    : never;
};

/**
 * A reference to a value on some worker, its owner, which keeps the value while any worker holds a reference. Times are milliseconds.
 *
 * Every use fails with `owner-died` once the owner was removed from the group, with `rref-released` after `dispose` or shutdown, and
 * with what creating the value failed with, in the original words.
 * @example
 * ```ts workers=ps
 * const far: RRef<Tensor> = remote('ps', add, [ones([2]), 1]);
 * console.log(far.ownerName(), (await far.toHere()).toArray()); // ps [ 2, 2 ]
 * console.log((await far.rpcSync().mul(3)).toArray()); // [ 6, 6 ]
 * far.dispose();
 * ```
 */
export interface RRef<T> extends Disposable {
  readonly id: RRefId;
  isOwner(): boolean;
  owner(): WorkerInfo;
  ownerName(): string;
  /** PyTorch's forms: `OwnerRRef(…)`, `UserRRef(RRefId = …, ForkId = …)`. */
  toString(): string;
  /** Whether the owner knows this handle. On the owner and for a handle that came from the owner: always. */
  confirmedByOwner(): boolean;
  /** Resolves when the owner knows this handle and has the value. Rejects if creation failed. */
  confirmed(options?: CallOptions): Promise<void>;
  /** The name of the value's class; asked once, then known here, by one promise for all who ask again. Rejects if creation failed. */
  typeName(options?: CallOptions): Promise<string>;
  /** A value the caller owns: a copy from elsewhere, a second handle on the owner. Waits for the creation. */
  toHere(options?: CallOptions): Promise<T>;
  /** The owner's value itself, on the owner only: elsewhere `failed-precondition`. Waits for the creation. */
  localValue(options?: CallOptions): Promise<T>;
  /** Methods of the value, run on the owner. A name that is not published there rejects with a TypeError "… has no attribute …". */
  rpcSync(options?: CallOptions): RemoteProxy<T>;
  /** As `rpcSync`; `waitAll` collects these calls. */
  rpcAsync(options?: CallOptions): RemoteProxy<T>;
  /** As `rpcSync`, leaving each result on the owner. */
  remote(options?: CallOptions): RRefProxy<T>;
  /**
   * Runs the backward pass from the value, a scalar tensor, in the given distributed autograd context; on the owner without a context
   * it is the ordinary local one. Needs the extension 'dist-autograd' on both sides.
   */
  backward(this: RRef<Tensor>, contextId?: bigint, options?: CallOptions & { retainGraph?: boolean }): Promise<void>;
  /** Calls `listener` once when the owner was removed from the group; at once (in a later turn) if it was before. Returns a way to stop. */
  onOwnerDied(listener: () => void): () => void;
  /** Lets go of the handle. Safe with calls in flight: the release waits for them. Twice is once. */
  dispose(): void;
}
