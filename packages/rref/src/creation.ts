/** @file `remote()`: a call whose result stays where it was made, behind an RRef that is there at once. */
import type { Named } from '@backwire/tensor';
import { rpcInfo, RemoteError, RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { checkTimeoutMs, type RpcMessage } from '@backwire/rpc/internal';
import { MessageType, type HeaderEntry } from '@backwire/wire/internal';
import type { Message } from '@backwire/wire';
import { Cell } from './cell.ts';
import type { RRefHandle } from './handle.ts';
import { idOf, type UserFork } from './protocol/user-table.ts';
import type { RRefSession } from './session.ts';
import { encodeCreation } from './id-codec.ts';
import { encodeCarried } from './wire-format.ts';

/** What a creation is called in traces. */
export interface Creation {
  readonly name: string;
  /** The class that is constructed, so that calls of its methods can be named by it. */
  readonly className?: string | undefined;
}

/** A creation that was asked for. */
interface Request {
  readonly to: WorkerInfo;
  readonly fn: Named;
  readonly args: readonly unknown[];
  readonly what: Creation;
  readonly options: CallOptions;
}

/** What PyTorch says, and programs match on. */
const TIMED_OUT =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';

const CANCELLED =
  'RRef creation via rpc.remote() was cancelled, and it is possible that the RRef on the owner node does not exist.';

/** Calls `fn` on `to` and gives the RRef of its result. What cannot travel, a malformed time limit and an idempotency key are thrown here; every other failure shows when it is used. */
export function createRemote(
  session: RRefSession,
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
  return to.id === session.host.self.id ? createHere(session, request) : createThere(session, request);
}

function createThere(session: RRefSession, request: Request): RRefHandle<unknown> {
  const { to, fn, args, what } = request;
  const { worker, sites } = session;
  // Ids are drawn once the arguments are known to travel.
  let made: ReturnType<typeof worker.create> | undefined;
  const call = session.host.encodeCall(to, fn, args, () => {
    made = worker.create(sites.of(to));
    return encodeCreation(made.fork.rref, made.fork);
  });
  const { fork, carried } = made as unknown as ReturnType<typeof worker.create>;
  const handle = session.adopt({ fork });
  handle.className = what.className;
  handle.creationBegins();
  const entry = { extension: session.name, data: encodeCarried(carried) };
  followCreation(session, handle, fork, to, send(session, request, call, [entry]));
  return handle;
}

function createHere(session: RRefSession, request: Request): RRefHandle<unknown> {
  const { to, fn, args, what } = request;
  const { worker } = session;
  const cell = Cell.empty();
  let made: ReturnType<typeof worker.createOwn> | undefined;
  const call = session.host.encodeCall(to, fn, args, () => {
    made = worker.createOwn(cell);
    return encodeCreation(made, made);
  });
  const entry = made as unknown as ReturnType<typeof worker.createOwn>;
  const handle = session.adopt({ rref: idOf(entry), cell });
  handle.className = what.className;
  handle.creationBegins();
  send(session, request, call, []).then(
    () => {
      handle.creationEnds();
      worker.createOwnDone(entry);
    },
    (error: unknown) => {
      const shown = ofFunction(error) ? error : describe(error, to);
      handle.creationEnds({ error: shown });
      worker.createOwnDone(entry, ofFunction(error) ? undefined : session.failureOf(shown));
    },
  );
  return handle;
}

/** The RRef of a method of a value that never was: it says so when it is used, as it would had the news come a little later. */
export function createFailed(session: RRefSession, of: RRefHandle<unknown>, error: unknown): RRefHandle<unknown> {
  session.throwIfClosed();
  const { worker } = session;
  if (of.fork === undefined) {
    const cell = Cell.empty();
    cell.reject(error);
    const handle = session.adopt({ rref: worker.drawId(), cell });
    handle.creationEnds({ error });
    return handle;
  }
  const { fork } = worker.create(of.fork.owner);
  const handle = session.adopt({ fork });
  handle.creationEnds({ error });
  worker.users.createFailed(fork, session.failureOf(error));
  return handle;
}

/** Keeps the handle reachable until the creation is answered, since its outcome is recorded there. */
function followCreation(
  session: RRefSession,
  handle: RRefHandle<unknown>,
  fork: UserFork,
  to: WorkerInfo,
  sent: Promise<unknown>,
): void {
  const { users } = session.worker;
  sent.then(
    () => {
      handle.creationEnds();
      users.created(fork);
    },
    (error: unknown) => {
      if (ofFunction(error)) {
        handle.creationEnds({ error });
        users.created(fork);
        return;
      }
      const shown = describe(error, to);
      handle.creationEnds({ error: shown });
      users.createFailed(fork, session.failureOf(shown));
    },
  );
}

function send(
  session: RRefSession,
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
  if (info === undefined) return error;
  const intentional = info.message.includes('RPCErr:2');
  if (info.code !== 'deadline-exceeded' && info.code !== 'cancelled' && !intentional) return error;
  const text = info.code === 'cancelled' ? CANCELLED : TIMED_OUT;
  return new RpcError(info.code, text, { executed: info.executed, peer: to, cause: error });
}
