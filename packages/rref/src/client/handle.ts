/** @file The RRef that programs hold: one class for the owner's own handles and for those of users. */
import { RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import {
  CALL_OPTIONS,
  checkSwitch,
  refuseUnknown,
  show,
  type ExtensionHost,
  type RpcMessage,
} from '@backwire/rpc/internal';
import { scopeHere } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import type { Target } from '../messages/handle-transfer.ts';
import { encodeBackward, encodeFetch } from '../messages/request-codec.ts';
import { backwardHere } from '../owner/backward.ts';
import type { OwnedValue } from '../owner/owned-value.ts';
import { secondHandle, typeNameOf } from '../owner/referent.ts';
import { StandIn, type Within } from '../owner/stand-in.ts';
import type { GlobalId } from '../protocol/ids.ts';
import type { UserFork } from '../protocol/user-table.ts';
import type { RemoteProxy, RRef, RRefProxy } from '../types.ts';
import { BaseHandle, type HandleAgent } from './base-handle.ts';
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
export interface HandleHost extends HandleAgent {
  readonly host: ExtensionHost;
  readonly requests: Requests;
  /** The program has let go of a handle. */
  release(handle: object, fork: UserFork): void;
  /** The same on the owner, of a handle that held the value. */
  letGo(rref: GlobalId, owned: OwnedValue): void;
  onOwnerDied(fork: UserFork, listener: () => void): () => void;
  /** @throws RpcError 'failed-precondition' when the worker is known to lack the extension. */
  requireExtension(worker: WorkerInfo, extension: string): void;
}

/** See `RRef`. Made by the session of one agent, and usable only there. */
export class RRefHandle<T> extends BaseHandle implements RRef<T> {
  readonly #session: HandleHost;
  #className: string | undefined;
  readonly #type: TypeQuestion;
  /** It counts among those of this worker who hold the value. */
  #holds = false;

  constructor(session: HandleHost, target: Target<OwnedValue>, type?: string) {
    super(session, 'owned' in target ? target : { rref: target.fork.rref, fork: target.fork });
    this.#session = session;
    this.#type = new TypeQuestion(type);
  }

  get session(): HandleHost {
    return this.#session;
  }

  /** On the owner: the value is held until this handle is disposed. One that is only made to be sent does not hold it. */
  holdValue(): this {
    if (this.owned !== undefined && !this.#holds) {
      this.#holds = true;
      this.owned.hold();
    }
    return this;
  }

  /** The class that this worker asked for, before anybody knows whether it could be made. */
  set className(name: string | undefined) {
    this.#className = name;
  }

  /** How traces call a method of the value. */
  nameOf(method: string): string {
    return `${this.#type.name ?? this.#className ?? 'RRef'}.${method}`;
  }

  /** The type's name, if it is known here. */
  get knownType(): string | undefined {
    return this.#type.name;
  }

  confirmed(options: CallOptions = {}): Promise<void> {
    return this.use('confirmed()', async () => {
      this.checkOptions(options, CALL_OPTIONS, 'confirmed()');
      if (this.owned !== undefined) await this.wait(this.owned.wait(), options);
      else if (this.fork !== undefined) await this.#session.requests.whenCreated(this, this.fork, options);
    });
  }

  typeName(options?: CallOptions): Promise<string> {
    const shared = options === undefined ? this.#type.shared() : undefined;
    if (shared !== undefined && this.usable) return shared;
    const asked = this.use('type_name()', async () => {
      this.checkOptions(options, CALL_OPTIONS, 'typeName()');
      const type =
        this.#type.name ??
        (this.owned === undefined
          ? await this.#session.requests.askType(this, options ?? {})
          : await this.here(this.owned, options ?? {}, typeNameOf, (value, within) => value.typeName(within)));
      return this.#type.learn(type);
    });
    return options === undefined ? this.#type.share(asked) : asked;
  }

  toHere(options: CallOptions = {}): Promise<T> {
    return this.use('to_here()', async () => {
      this.checkOptions(options, CALL_OPTIONS, 'toHere()');
      if (this.owned !== undefined)
        return (await this.here(this.owned, options, secondHandle, (value, within) => value.fetch(within))) as T;
      const payload = encodeFetch(this.rref, this.#session.host.self.id);
      const message = { type: MessageType.PYTHON_RREF_FETCH_CALL, id: 0n, payload, tensors: [] };
      const reply = await this.#session.requests.ask(this, message, options, 'to_here');
      return this.#session.host.decodeValue(reply.payload, reply.tensors, this.owner(), [], scopeHere()) as T;
    });
  }

  localValue(options: CallOptions = {}): Promise<T> {
    const { owned } = this;
    if (owned === undefined) return this.notHere();
    return this.use('local_value()', async () => {
      this.checkOptions(options, CALL_OPTIONS, 'localValue()');
      const value = await this.wait(owned.wait(), options);
      return (value instanceof StandIn ? value.local : value) as T;
    });
  }

  rpcSync(options: CallOptions = {}): RemoteProxy<T> {
    this.checkOptions(options, CALL_OPTIONS, 'rpcSync() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethod(this, 'sync', method, args, options),
    ) as RemoteProxy<T>;
  }

  rpcAsync(options: CallOptions = {}): RemoteProxy<T> {
    this.checkOptions(options, CALL_OPTIONS, 'rpcAsync() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethod(this, 'async', method, args, options),
    ) as RemoteProxy<T>;
  }

  remote(options: CallOptions = {}): RRefProxy<T> {
    this.checkOptions(options, CALL_OPTIONS, 'remote() of an RRef');
    return createProxy((method, args) =>
      this.#session.requests.callMethodRemotely(this, method, args, options),
    ) as RRefProxy<T>;
  }

  backward(contextId?: bigint, options: CallOptions & { retainGraph?: boolean } = {}): Promise<void> {
    return this.use('backward()', async () => {
      this.checkOptions(options, BACKWARD_OPTIONS, 'backward()');
      checkSwitch(options.retainGraph, 'retainGraph');
      checkContextId(contextId);
      const retainGraph = options.retainGraph ?? false;
      if (this.owned !== undefined) {
        const value = await this.wait(this.owned.wait(), options);
        await backwardHere(this.#session.host, value, contextId, { ...options, retainGraph });
        return;
      }
      if (contextId === undefined)
        throw new RpcError('failed-precondition', "User RRefs require 'dist_autograd_ctx_id' to be specified");
      this.#session.requireExtension(this.owner(), 'dist-autograd');
      const payload = encodeBackward(this.rref, contextId, retainGraph);
      await this.#session.requests.ask(
        this,
        { type: MessageType.RREF_BACKWARD_REQ, id: 0n, payload, tensors: [] },
        options,
        'backward',
      );
    });
  }

  onOwnerDied(listener: () => void): () => void {
    if (typeof listener !== 'function') throw new TypeError(`onOwnerDied() takes a function, got ${show(listener)}`);
    return this.fork === undefined ? () => undefined : this.#session.onOwnerDied(this.fork, listener);
  }

  /** Beside what the creator was told: the owner died. */
  override failure(): { readonly error: unknown } | undefined {
    if (this.fork?.failure?.code === 'owner-died') return { error: this.#session.requests.ownerDied(this) };
    return super.failure();
  }

  protected override explained(error: unknown): unknown {
    return this.#session.requests.explain(this, error);
  }

  protected release(): void {
    if (this.fork !== undefined) this.#session.release(this, this.fork);
    else if (this.#holds && this.owned !== undefined) {
      this.#holds = false;
      this.#session.letGo(this.rref, this.owned);
    }
  }

  /** @throws RpcError 'invalid-argument' for options that there are not, and for another agent than the one that made the handle. */
  private checkOptions(options: CallOptions | undefined, known: ReadonlySet<string>, what: string): void {
    if (options === undefined) return;
    refuseUnknown(options, known, what);
    checkSwitch(options.ordered, 'ordered');
    const agent: unknown = options.agent ?? undefined;
    if (agent !== undefined && agent !== this.#session.host)
      throw new RpcError(
        'invalid-argument',
        `${what}: an RRef is used by the agent that made it, '${this.#session.host.self.name}'; leave the agent out`,
      );
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
    const value = await this.wait(owned.wait(), options);
    if (!(value instanceof StandIn)) return own(value);
    const timeoutMs = whole === 0 ? 0 : Math.max(1, Math.ceil(whole - (host.now() - started)));
    return asked(value, { timeoutMs, signal: options.signal });
  }
}

/** As where the context is looked for, which may be another worker: what is no id would be cut down to one on the way. */
function checkContextId(id: unknown): void {
  if (id === undefined) return;
  if (typeof id !== 'bigint')
    throw new TypeError(`backward(): a context id is a bigint, what context() gives its function; got ${show(id)}`);
  if (BigInt.asUintN(64, id) !== id) throw new RpcError('not-found', `Could not find autograd context with id: ${id}`);
}

Object.defineProperty(RRefHandle.prototype, Symbol.for('backwire.carried'), {
  value: 'RRefs travel in arguments and results of calls only, of an agent with the extension rrefs()',
});
