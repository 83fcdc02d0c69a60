/** @file The RRef that programs hold in a torch group: one class for the owner's own handles and for those of users. */
import { RpcError, type CallOptions } from '@backwire/rpc';
import { CALL_OPTIONS, refuseUnknown } from '@backwire/rpc/internal';
import {
  BaseHandle,
  TypeQuestion,
  createProxy,
  secondHandle,
  typeNameOf,
  type Answer,
  type HandleAgent,
  type HandleTarget,
  type UserFork,
} from '@backwire/rref/internal';
import type { RRef, RRefProxy, RemoteProxy } from '@backwire/rref';
import { Tensor } from '@backwire/tensor';

/** The type of what Python functions make; such values are fetched as pickles. */
export const PYTHON_OBJECT = 'PyObject';
export const TENSOR = 'Tensor';

const BACKWARD_OPTIONS: ReadonlySet<string> = new Set([...CALL_OPTIONS, 'retainGraph']);

/** What a handle needs of the agent that made it. */
export interface HandleHost extends HandleAgent {
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

/** See `RRef`. Made by one agent, and usable only there. */
export class TorchRRef<T> extends BaseHandle implements RRef<T> {
  readonly #host: HandleHost;
  /** torch's name for the type of the value. */
  readonly #type: string;
  /** The name of its class. */
  readonly #className = new TypeQuestion();

  constructor(host: HandleHost, target: HandleTarget, type: string) {
    super(host, target);
    this.#host = host;
    this.#type = type;
  }

  get host(): HandleHost {
    return this.#host;
  }

  /** 'PyObject', 'Tensor', or a type of TorchScript. */
  get torchType(): string {
    return this.#type;
  }

  confirmed(options: CallOptions = {}): Promise<void> {
    return this.use('confirmed()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'confirmed()');
      const { fork, owned } = this;
      if (owned !== undefined) await this.wait(owned.wait(), options);
      else if (fork !== undefined) {
        await this.wait(this.#host.whenSettled(fork), options);
        const failure = this.failure();
        if (failure !== undefined) throw failure.error;
        // Whether there is a value is known to whoever is asked for its type.
        this.#className.learn(this.#className.name ?? (await this.#host.typeName(this, options)));
      }
    });
  }

  typeName(options?: CallOptions): Promise<string> {
    const shared = options === undefined ? this.#className.shared() : undefined;
    if (shared !== undefined && this.usable) return shared;
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
      refuseUnknown(options, CALL_OPTIONS, 'toHere()');
      const { owned } = this;
      if (owned !== undefined) return secondHandle(await this.wait(owned.wait(), options)) as T;
      return (await this.wait(this.#host.fetch(this as TorchRRef<unknown>, options), options)) as T;
    });
  }

  localValue(options: CallOptions = {}): Promise<T> {
    const { owned } = this;
    if (owned === undefined) return this.notHere();
    return this.use('local_value()', async () => {
      refuseUnknown(options, CALL_OPTIONS, 'localValue()');
      return (await this.wait(owned.wait(), options)) as T;
    });
  }

  rpcSync(options: CallOptions = {}): RemoteProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'rpcSync() of an RRef');
    return this.proxy('sync', options);
  }

  rpcAsync(options: CallOptions = {}): RemoteProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'rpcAsync() of an RRef');
    return this.proxy('async', options);
  }

  remote(options: CallOptions = {}): RRefProxy<T> {
    refuseUnknown(options, CALL_OPTIONS, 'remote() of an RRef');
    return createProxy((method, args) => this.#host.invokeRemotely(this, method, args, options)) as RRefProxy<T>;
  }

  backward(contextId?: bigint, options: CallOptions & { retainGraph?: boolean } = {}): Promise<void> {
    return this.use('backward()', async () => {
      refuseUnknown(options, BACKWARD_OPTIONS, 'backward()');
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

  private proxy(kind: 'sync' | 'async', options: CallOptions): RemoteProxy<T> {
    return createProxy((method, args) => this.#host.invoke(this, kind, method, args, options)) as RemoteProxy<T>;
  }

  protected release(): void {
    if (this.fork !== undefined) this.#host.release(this, this.fork);
  }
}
Object.defineProperty(TorchRRef.prototype, Symbol.for('backwire.carried'), {
  value: 'RRefs of a torch group travel in its calls only',
});
