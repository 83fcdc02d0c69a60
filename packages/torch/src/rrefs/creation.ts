/** @file remote(): the call that creates a value, and the handle on it that is there before its answer. */
import { RemoteError, RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { OwnedValue, failureOf, type HandleTarget, type ProtocolWorker, type UserFork } from '@backwire/rref/internal';
import type { Caller } from '../calls/caller.ts';
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
  limits(options: CallOptions): CallOptions;
  /** The owner would not create the value of this fork. */
  refusedBy(fork: UserFork): void;
}

/** Calls whose result stays where it is made. */
export class Creations {
  private readonly host: CreationHost;
  private readonly port: CreationPort;

  constructor(host: CreationHost, port: CreationPort) {
    this.host = host;
    this.port = port;
  }

  /** On another worker, or here. */
  create(peer: TorchPeer, callee: Callee, args: readonly unknown[], options: CallOptions): TorchRRef<unknown> {
    if (peer.worker.id === this.host.self.id) return this.createHere(peer, callee, args, options);
    const { fork, carried } = this.port.worker.create(peer.worker.id);
    if (carried.kind !== 'create') throw new Error('invariant: a creation is no fork');
    const creation = { rref: torchId(carried.rref), fork: torchId(carried.fork) };
    let body: Body;
    const writing: Writing = { to: peer.worker, undo: [] };
    try {
      body = this.remoteCall(callee, args, creation, writing);
    } catch (error) {
      this.port.worker.users.createFailed(fork, failureOf(error));
      this.port.worker.users.release(fork);
      throw error;
    }
    const handle = this.port.adopt({ rref: fork.rref, fork }, typeOf(callee));
    const asked = this.ask(peer, callee, () => body, options).then(
      () => this.port.worker.users.created(fork),
      (error: unknown) => {
        const shown = creationError(error, peer.worker);
        if (RpcError.from(error).executed === 'no' || error instanceof RemoteError) this.port.refusedBy(fork);
        this.port.worker.users.createFailed(fork, failureOf(shown));
        throw shown;
      },
    );
    handle.follow(asked);
    return handle;
  }

  /**
   * A call to this worker itself. As of others' calls the very result stays: it need not travel, and no scope here has it. The RRef's own
   * id is that of the fork, which keeps its entry until the call is over.
   */
  private createHere(
    peer: TorchPeer,
    callee: Callee,
    args: readonly unknown[],
    options: CallOptions,
  ): TorchRRef<unknown> {
    const owned = OwnedValue.empty();
    const entry = this.port.worker.createOwn(owned);
    const id = torchId(entry);
    const handle = this.port.adopt({ rref: { member: entry.member, local: entry.local }, owned }, typeOf(callee));
    const encode = (writing: Writing): Body => this.remoteCall(callee, args, { rref: id, fork: id }, writing);
    this.ask(peer, callee, encode, options).then(
      () => this.port.worker.createOwnDone(entry),
      (error: unknown) => {
        owned.reject(error);
        this.port.worker.createOwnDone(entry);
      },
    );
    return handle;
  }

  /** Sends a call that creates; resolves when its owner has run it. */
  private ask(
    peer: TorchPeer,
    callee: Callee,
    encode: (writing: Writing) => Body,
    options: CallOptions,
  ): Promise<unknown> {
    return this.host.caller.ask(
      peer,
      encode,
      this.port.limits(options),
      (response, { from }) => acknowledged(response, 'remote-ret', from),
      { kind: 'remote', name: plainName(callee) },
    );
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
