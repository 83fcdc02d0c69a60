/** @file `remote()`: a call whose result stays where it was made, behind an RRef that is there at once. */
import { rpcInfo, RemoteError, RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { checkTimeoutMs, type ExtensionHost, type RpcMessage } from '@backwire/rpc/internal';
import type { Named } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { MessageType, type HeaderEntry } from '@backwire/wire/internal';
import { creationCutOff, creationTimedOut, failureOf, isElsewhere } from '../failure.ts';
import type { MemberDirectory } from '../members.ts';
import { encodeCarried } from '../messages/entry-codec.ts';
import type { Target } from '../messages/handle-transfer.ts';
import { encodeCreation } from '../messages/request-codec.ts';
import { EXTENSION_NAME } from '../names.ts';
import { OwnedValue } from '../owner/owned-value.ts';
import type { MemberKey } from '../protocol/ids.ts';
import type { Failure } from '../protocol/messages.ts';
import { idOf } from '../protocol/user-table.ts';
import type { ProtocolWorker } from '../protocol/worker.ts';
import type { RRefHandle } from './handle.ts';

/** What a creation needs of the worker that asks for it. */
export interface CreationHost {
  readonly host: ExtensionHost;
  readonly members: MemberDirectory;
  readonly worker: ProtocolWorker<OwnedValue>;
  /** The handle for something in the tables. */
  adopt(target: Target<OwnedValue>): RRefHandle<unknown>;
  /** @throws RpcError 'failed-precondition' */
  throwIfClosed(): void;
}

/** What a creation is called in traces. */
export interface Creation {
  readonly name: string;
  /** The class that is constructed, so that calls of its methods can be named by it. */
  readonly className?: string | undefined;
  /** What a failure means to whoever asked for it. */
  readonly explain?: ((error: unknown) => unknown) | undefined;
}

/** A creation that was asked for. */
interface Request {
  readonly to: WorkerInfo;
  readonly fn: Named;
  readonly args: readonly unknown[];
  readonly what: Creation;
  readonly options: CallOptions;
}

/**
 * Calls `fn` on `to` and gives the RRef of its result. What cannot travel, an RRef that was disposed, a malformed time limit and an
 * idempotency key are thrown here; every other failure shows when it is used.
 */
export function createRemote(
  session: CreationHost,
  to: WorkerInfo,
  fn: Named,
  args: readonly unknown[],
  what: Creation,
  options: CallOptions,
): RRefHandle<unknown> {
  session.throwIfClosed();
  if (options.timeoutMs !== undefined) checkTimeoutMs(options.timeoutMs);
  if (options.idempotencyKey !== undefined)
    throw new RpcError('invalid-argument', 'remote() takes no idempotency key: each call of it makes another object');
  const request: Request = { to, fn, args, what, options };
  const owner = session.members.of(to);
  try {
    return owner === session.members.self ? createHere(session, request) : createThere(session, request, owner);
  } catch (error) {
    if (!isElsewhere(error)) throw error;
    return createFailed(session, owner, error);
  }
}

function createThere(session: CreationHost, request: Request, owner: MemberKey): RRefHandle<unknown> {
  const { to, fn, args } = request;
  const { worker } = session;
  // Ids are drawn once the arguments are known to travel.
  let made: ReturnType<typeof worker.create> | undefined;
  const call = session.host.encodeCall(to, fn, args, () => {
    made = worker.create(owner);
    return encodeCreation(made.fork.rref, made.fork);
  });
  const { fork, carried } = made as unknown as ReturnType<typeof worker.create>;
  const handle = session.adopt({ fork });
  const entry = { extension: EXTENSION_NAME, data: encodeCarried(carried) };
  follow(session, handle, request, call, [entry], (failure) => {
    if (failure === undefined) worker.users.created(fork);
    else worker.users.createFailed(fork, failure);
  });
  return handle;
}

function createHere(session: CreationHost, request: Request): RRefHandle<unknown> {
  const { to, fn, args } = request;
  const { worker } = session;
  const owned = OwnedValue.empty();
  let made: ReturnType<typeof worker.createOwn> | undefined;
  const call = session.host.encodeCall(to, fn, args, () => {
    made = worker.createOwn(owned);
    return encodeCreation(made, made);
  });
  const entry = made as unknown as ReturnType<typeof worker.createOwn>;
  const handle = session.adopt({ rref: idOf(entry), owned });
  follow(session, handle, request, call, [], (failure) => worker.createOwnDone(entry, failure));
  return handle;
}

/** The RRef of a creation that cannot even be asked for: it says why when it is used, as it would had the news come a little later. */
export function createFailed(session: CreationHost, owner: MemberKey, error: unknown): RRefHandle<unknown> {
  session.throwIfClosed();
  const { worker } = session;
  const target =
    owner === worker.self ? { rref: worker.drawId(), owned: rejected(error) } : { fork: worker.createNever(owner) };
  const handle = session.adopt(target);
  handle.creationEnds({ error });
  return handle;
}

function rejected(error: unknown): OwnedValue {
  const owned = OwnedValue.empty();
  owned.reject(error);
  return owned;
}

/**
 * Sends the call and records its outcome in the handle, which it keeps reachable until then, and by `done`: with a failure when the
 * owner may not have the RRef.
 */
function follow(
  session: CreationHost,
  handle: RRefHandle<unknown>,
  request: Request,
  call: RpcMessage,
  entries: readonly HeaderEntry[],
  done: (failure?: Failure) => void,
): void {
  handle.className = request.what.className;
  handle.creationBegins();
  send(session, request, call, entries).then(
    () => {
      handle.creationEnds();
      done();
    },
    (error: unknown) => {
      const shown = ofFunction(error) ? error : describe(request.what.explain?.(error) ?? error, request.to);
      handle.creationEnds({ error: shown });
      done(ofFunction(error) ? undefined : failureOf(shown));
    },
  );
}

function send(
  session: CreationHost,
  { to, what, options }: Request,
  { type, payload, tensors, header }: RpcMessage,
  entries: readonly HeaderEntry[],
): Promise<Message> {
  const message: RpcMessage = {
    type: type === MessageType.SCRIPT_CALL ? MessageType.SCRIPT_REMOTE_CALL : MessageType.PYTHON_REMOTE_CALL,
    id: 0n,
    payload,
    tensors,
    header: header === undefined || header.length === 0 ? entries : [...header, ...entries],
  };
  return session.host.call(to, message, { ...options, label: labelOf(what.name) });
}

/** The label made last: most programs make the same call many times. */
let label = { kind: 'remote' as const, name: '' };

function labelOf(name: string): typeof label {
  return label.name === name ? label : (label = { kind: 'remote', name });
}

/** Whether the function itself failed: then the owner has the RRef, with this error in it. */
function ofFunction(error: unknown): boolean {
  const info = rpcInfo(error);
  return info instanceof RemoteError && info.executed === 'yes';
}

/** What a use of the RRef will say. A creation of which nothing is known says what PyTorch says. */
function describe(error: unknown, to: WorkerInfo): unknown {
  const info = rpcInfo(error);
  // What this worker made fail on purpose is about nobody.
  const intentional = info?.code === 'unavailable' && info.peer === undefined;
  return intentional ? creationTimedOut(info, to) : (creationCutOff(error, to) ?? error);
}
