/** @file remote(): the call that creates a value, and the handle on it that is there before its answer. */
import { RemoteError, RpcError, rpcInfo, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import {
  OwnedValue,
  failureOf,
  isElsewhere,
  type HandleTarget,
  type ProtocolWorker,
  type UserFork,
} from '@backwire/rref/internal';
import { expecting, limitsOf, type Caller } from '../calls/caller.ts';
import { writeOperatorCall, writeScriptFunctionCall } from '../calls/script-calls.ts';
import { isAsyncCall, plainName, udfOf, type Target as Callee } from '../calls/targets.ts';
import type { Values, Writing } from '../calls/values.ts';
import type { TorchPeer } from '../links/peer.ts';
import { writeCommand } from '../messages/codec.ts';
import type { Body, Creation } from '../messages/commands.ts';
import { acknowledged } from './acknowledgement.ts';
import { PYTHON_OBJECT, TENSOR, type TorchRRef } from './handle.ts';
import { torchId } from './ids.ts';

/** What creations need of the agent. */
export interface CreationHost {
  readonly self: WorkerInfo;
  readonly caller: Caller;
  readonly values: Values;
}

/** What they need of the RRefs of the agent. */
export interface CreationPort {
  readonly worker: ProtocolWorker<OwnedValue>;
  adopt(target: HandleTarget, type: string): TorchRRef<unknown>;
  /** The owner would not create the value of this fork. */
  refusedBy(fork: UserFork): void;
}

/** A creation that was asked for. */
interface Request {
  readonly peer: TorchPeer;
  readonly callee: Callee;
  readonly args: readonly unknown[];
  readonly limits: CallOptions;
}

/** How a creation failed; `never`: its owner has not heard of it, or would not have it. */
interface Failed {
  readonly error: unknown;
  readonly never: boolean;
}

/** What keeps a call from being sent and is no mistake in it. */
const CUT_OFF: ReadonlySet<unknown> = new Set(['cancelled', 'unavailable', 'peer-died']);

/** Calls whose result stays where it is made. */
export class Creations {
  private readonly host: CreationHost;
  private readonly port: CreationPort;

  constructor(host: CreationHost, port: CreationPort) {
    this.host = host;
    this.port = port;
  }

  /**
   * On another worker, or here. What cannot travel, an RRef that was disposed, malformed limits and an idempotency key are thrown; every
   * other failure shows when the RRef is used.
   */
  private create(peer: TorchPeer, callee: Callee, args: readonly unknown[], options: CallOptions): TorchRRef<unknown> {
    const request: Request = { peer, callee, args, limits: limitsOf(options, this.host.caller.defaultTimeoutMs) };
    return peer.worker.id === this.host.self.id ? this.createHere(request) : this.createThere(request);
  }

  /** As `create`, on the worker that `find` gives: one that has left is named when the RRef is used. @throws what names no worker. */
  createAt(find: () => TorchPeer, callee: Callee, args: readonly unknown[], options: CallOptions): TorchRRef<unknown> {
    let peer: TorchPeer;
    try {
      peer = find();
    } catch (error) {
      // One that was there once, as only its error names it.
      const left = rpcInfo(error)?.peer;
      if (left === undefined) throw error;
      return this.createFailed(left.id, callee, error);
    }
    return this.create(peer, callee, args, options);
  }

  /** The RRef of a creation that cannot even be asked for. */
  createFailed(owner: number, callee: Callee, error: unknown): TorchRRef<unknown> {
    const { worker } = this.port;
    const owned = OwnedValue.empty();
    owned.reject(error);
    const fork = owner === this.host.self.id ? undefined : worker.createNever(owner);
    const target = fork === undefined ? { rref: worker.drawId(), owned } : { rref: fork.rref, fork };
    const handle = this.port.adopt(target, typeOf(callee));
    handle.creationEnds({ error });
    return handle;
  }

  private createThere(request: Request): TorchRRef<unknown> {
    const { peer, callee } = request;
    const { users } = this.port.worker;
    const { fork, carried } = this.port.worker.create(peer.worker.id);
    if (carried.kind !== 'create') throw new Error('invariant: a creation is no fork');
    const handle = this.port.adopt({ rref: fork.rref, fork }, typeOf(callee));
    // The handle is reachable, and with it the fork, until the creation is over.
    handle.creationBegins();
    const over = (failed?: Failed): void => {
      if (failed === undefined) {
        users.created(fork);
        return handle.creationEnds();
      }
      const error = creationError(failed.error, peer.worker);
      if (failed.never) this.port.refusedBy(fork);
      users.createFailed(fork, failureOf(error));
      handle.creationEnds({ error });
    };
    try {
      this.send(request, { rref: torchId(carried.rref), fork: torchId(carried.fork) }, over);
    } catch (error) {
      handle.dispose();
      throw error;
    }
    return handle;
  }

  /**
   * A call to this worker itself. As of others' calls the very result stays: it need not travel, and no scope here has it. The RRef's own
   * id is that of the fork, which keeps its entry until the call is over.
   */
  private createHere(request: Request): TorchRRef<unknown> {
    const owned = OwnedValue.empty();
    const entry = this.port.worker.createOwn(owned);
    const id = torchId(entry);
    const target = { rref: { member: entry.member, local: entry.local }, owned };
    const handle = this.port.adopt(target, typeOf(request.callee));
    const over = (failed?: Failed): void => {
      if (failed !== undefined) owned.reject(failed.error);
      this.port.worker.createOwnDone(entry);
    };
    try {
      this.send(request, { rref: id, fork: id }, over);
    } catch (error) {
      handle.dispose();
      throw error;
    }
    return handle;
  }

  /**
   * Sends a call that creates; `over` hears once how it ended, at once where nothing could be sent.
   * @throws what is a mistake of the program in the arguments, of which `over` has heard as well.
   */
  private send({ peer, callee, args, limits }: Request, ids: Creation, over: (failed?: Failed) => void): void {
    const mistakes: unknown[] = [];
    let sent = false;
    const answer = {
      resolve: () => over(),
      reject: (error: unknown) => {
        if (!sent && !isElsewhere(error) && !CUT_OFF.has(rpcInfo(error)?.code)) mistakes.push(error);
        over({ error, never: !sent || RpcError.from(error).executed === 'no' || error instanceof RemoteError });
      },
    };
    const encode = (writing: Writing): Body => this.remoteCall(callee, args, ids, writing);
    const created = expecting(peer, (response, { from }) => acknowledged(response, 'remote-ret', from));
    this.host.caller.command(peer, encode, limits, created, answer, { kind: 'remote', name: plainName(callee) });
    sent = true;
    if (mistakes.length > 0) throw mistakes[0];
  }

  private remoteCall(callee: Callee, args: readonly unknown[], creation: Creation, writing: Writing): Body {
    const { values } = this.host;
    if (callee.kind === 'operator') return writeOperatorCall(callee.name, args, creation);
    if (callee.kind === 'script')
      return writeScriptFunctionCall(callee.name, args, (value) => values.fork(value, writing), creation);
    const { bytes, tensors } = values.write(udfOf(callee, args), writing);
    return writeCommand({
      kind: 'python-remote-call',
      isAsync: isAsyncCall(callee),
      pickled: bytes,
      tensors,
      ...creation,
    });
  }
}

/** torch's type of what a callee makes. */
function typeOf({ kind }: Callee): string {
  return kind === 'python' || kind === 'offered' ? PYTHON_OBJECT : TENSOR;
}

/** A creation of which nothing is known says what PyTorch says. */
function creationError(error: unknown, peer: WorkerInfo): unknown {
  if (!(error instanceof RpcError)) return error;
  const text = {
    'deadline-exceeded':
      'RRef creation via remote() timed out, and it is possible that the RRef on the owner node does not exist.',
    cancelled: 'RRef creation via remote() was cancelled',
  }[error.code as string];
  return text === undefined ? error : new RpcError(error.code, text, { executed: error.executed, peer, cause: error });
}
