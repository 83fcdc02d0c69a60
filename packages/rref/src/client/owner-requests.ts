/** @file What handles ask of owners: fetches, method calls, backward passes; and how their failures read. */
import { rpcInfo, rpcStream, RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { callLabelled, collectInWaitAll, type RpcErrorFields, type RpcMessage } from '@backwire/rpc/internal';
import type { Message } from '@backwire/wire';
import type { CreationSites } from '../creation-sites.ts';
import { waitFor } from '../deadline.ts';
import { EXTENSION_NAME } from '../names.ts';
import {
  askTypeName,
  invokeAndKeep,
  invokeMethod,
  openStream,
  type MethodResult,
  type Reference,
} from '../owner/remote-methods.ts';
import { incarnationOf, workerOf } from '../protocol/ids.ts';
import type { UserFork } from '../protocol/user-table.ts';
import { createFailed, createRemote, type CreationHost } from './creation.ts';
import type { RRefHandle } from './handle.ts';
import { createAnswer, type Answer } from './proxy.ts';

/** What asking needs of the worker that asks. */
export interface RequestHost extends CreationHost {
  readonly creationSites: CreationSites;
  /** Resolves when the fork was confirmed, or failed, or the agent closed; never rejects. */
  whenSettled(fork: UserFork): Promise<void>;
  /** @throws RpcError 'failed-precondition' when the worker is known to lack the extension. */
  requireExtension(worker: WorkerInfo, extension: string): void;
}

/** Something asked of an owner, within limits. */
type Send<T> = (owner: WorkerInfo, limits: CallOptions) => Promise<T>;

/** One per agent. Each use holds its handle until it is over, and fails with `owner-died` when that is why. */
export class OwnerRequests {
  private readonly session: RequestHost;

  constructor(session: RequestHost) {
    this.session = session;
  }

  /** Sends a request to the owner of a handle. */
  ask(handle: RRefHandle<unknown>, message: RpcMessage, options: CallOptions, name: string): Promise<Message> {
    const label = { kind: 'other' as const, name: `rref.${name}` };
    return this.atOwner(handle, options, (owner, limits) =>
      this.session.host.call(owner, message, { ...limits, label }),
    );
  }

  callMethod(
    handle: RRefHandle<unknown>,
    kind: 'sync' | 'async',
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): Answer {
    const result = handle.use(`rpc_${kind}()`, async () => {
      const given = [this.reference(handle), method, args];
      const label = { kind, name: handle.nameOf(method) };
      const send = (owner: WorkerInfo, limits: CallOptions): Promise<unknown> =>
        callLabelled(owner, invokeMethod, given, { ...limits, agent: this.session.host }, label);
      const [value, ticket] = (await this.atOwner(handle, options, send)) as MethodResult;
      if (ticket === undefined) return value;
      return rpcStream(handle.owner(), openStream, [ticket], { agent: this.session.host, signal: options.signal });
    });
    if (kind === 'async') collectInWaitAll(result);
    return createAnswer(method, result);
  }

  callMethodRemotely(
    handle: RRefHandle<unknown>,
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): RRefHandle<unknown> {
    const failure = handle.failure();
    if (failure !== undefined)
      return createFailed(this.session, handle.fork?.owner ?? this.session.members.self, failure.error);
    handle.throwIfDeleted('call remote() on it');
    const given = [this.reference(handle), method, args];
    const owner = handle.owner();
    // An owner that was never asked for the value does not have it: why it was not asked is known here by now.
    const explain = (error: unknown): unknown => (isUnknown(error, owner) ? handle.failure()?.error : undefined);
    const what = { name: handle.nameOf(method), explain };
    const made = createRemote(this.session, owner, invokeAndKeep, given, what, options);
    // The method still needs this value: the handle is in use until the creation is over.
    const created = made.creation ?? Promise.resolve();
    handle.use('remote()', () => created).catch(() => undefined);
    return made;
  }

  askType(handle: RRefHandle<unknown>, options: CallOptions): Promise<string> {
    // In profiles it has PyTorch's key.
    const label = { kind: 'async' as const, name: '_rref_typeof_on_owner' };
    const given = [this.reference(handle)];
    return this.atOwner(
      handle,
      options,
      (owner, limits) =>
        callLabelled(owner, askTypeName, given, { ...limits, agent: this.session.host }, label) as Promise<string>,
    );
  }

  /** Resolves when the owner has the value; rejects with why it never will. Only the handle of `remote()` hears of that unasked. */
  async whenCreated(handle: RRefHandle<unknown>, fork: UserFork, options: CallOptions): Promise<void> {
    const { session } = this;
    const ask = async (limits: CallOptions): Promise<void> => {
      const failure = handle.failure();
      if (failure !== undefined) throw failure.error;
      if (!handle.isCreator && handle.knownType === undefined) await this.askType(handle, limits);
    };
    await this.after(handle.unlessCreationFails(session.whenSettled(fork)), options, ask);
  }

  ownerDied(handle: RRefHandle<unknown>): RpcError {
    const made = this.session.creationSites.of(handle.fork);
    return ownerDied(handle, made === undefined ? '' : `, created ${made}`, { executed: 'maybe' });
  }

  /** What a failed use means: the death of the owner under its own name. */
  explain(handle: RRefHandle<unknown>, error: unknown): unknown {
    const info = rpcInfo(error);
    if (info === undefined || handle.fork === undefined || info.peer?.id !== handle.owner().id) return error;
    // What a method of the value ran into is about a third worker.
    if (info.executed === 'yes') return error;
    const died =
      info.code === 'peer-died' || (info.code !== 'owner-died' && handle.fork.failure?.code === 'owner-died');
    return died ? ownerDied(handle, '', { executed: info.executed, cause: error }) : error;
  }

  /**
   * Sends something to the owner of a handle, and gives up when a creation that is under way fails. The creating call may be overtaken
   * (its tensors still come from a device, or it was held back): then the owner knows nothing yet, nothing was done, and it is sent
   * again when the creation is over. The time given bounds all of it.
   */
  private atOwner<T>(handle: RRefHandle<unknown>, options: CallOptions, send: Send<T>): Promise<T> {
    const { fork, creation } = handle;
    if (creation !== undefined) return this.afterCreation(handle, creation, options, send);
    if (fork?.phase === 'pending' && this.session.members.member(fork.owner) === undefined) {
      // An owner that no view has shown yet: the handle is registered once one does.
      return this.after(this.session.whenSettled(fork), options, (limits) => send(this.ownerOf(handle), limits));
    }
    return send(this.ownerOf(handle), options);
  }

  private async afterCreation<T>(
    handle: RRefHandle<unknown>,
    creation: Promise<void>,
    options: CallOptions,
    send: Send<T>,
  ): Promise<T> {
    const owner = this.ownerOf(handle);
    const started = this.session.host.now();
    try {
      return await handle.unlessCreationFails(send(owner, options));
    } catch (error) {
      if (!isUnknown(error, owner)) throw error;
      const again = (limits: CallOptions): Promise<T> => {
        handle.throwIfCreationFailed();
        return send(owner, limits);
      };
      return this.after(creation, options, again, started);
    }
  }

  /** Waits, then sends, in the time that `options` gave at `started`. */
  private async after<T>(
    ready: Promise<void>,
    options: CallOptions,
    send: (limits: CallOptions) => Promise<T>,
    started = this.session.host.now(),
  ): Promise<T> {
    const { host } = this.session;
    const whole = host.timeoutMs(options);
    const left = (): number => (whole === 0 ? 0 : Math.max(1, whole - (host.now() - started)));
    await waitFor(ready, left(), options.signal);
    return send({ ...options, timeoutMs: left() });
  }

  /** @throws why the handle cannot be used, or that its owner lacks the extension. */
  private ownerOf(handle: RRefHandle<unknown>): WorkerInfo {
    handle.throwIfUnusable('call its owner');
    const owner = handle.owner();
    this.session.requireExtension(owner, EXTENSION_NAME);
    return owner;
  }

  private reference(handle: RRefHandle<unknown>): Reference {
    const { member, local } = handle.rref;
    return handle.fork === undefined ? handle : [workerOf(member), incarnationOf(member), local];
  }
}

/** Whether an owner says that it does not have the RRef (any more, or yet), so that nothing was done. */
function isUnknown(error: unknown, owner: WorkerInfo): boolean {
  const info = rpcInfo(error);
  return info?.code === 'rref-released' && info.executed === 'no' && info.peer?.id === owner.id;
}

function ownerDied(handle: RRefHandle<unknown>, where: string, fields: RpcErrorFields): RpcError {
  const peer = handle.owner();
  const text = `the owner '${peer.name}' of ${handle.toString()} was removed from the group${where}`;
  return new RpcError('owner-died', text, { ...fields, peer });
}
