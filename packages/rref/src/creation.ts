/** @file `remote()`: a call whose result stays where it was made, behind an RRef that is there at once. */
import type { Named } from '@backwire/tensor';
import { rpcInfo, RemoteError, RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { checkTimeoutMs, type RpcMessage } from '@backwire/rpc/internal';
import { MessageType, type HeaderEntry } from '@backwire/wire/internal';
import { writeWrappedPayload } from '@backwire/wire';
import { Cell } from './cell.ts';
import type { RRefHandle } from './handle.ts';
import type { GlobalId } from './protocol/ids.ts';
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

/** What PyTorch says, and programs match on. */
const TIMED_OUT =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';

const CANCELLED =
  'RRef creation via rpc.remote() was cancelled, and it is possible that the RRef on the owner node does not exist.';

/** Calls `fn` on `to` and gives the RRef of its result. What cannot travel and a malformed time limit are thrown here; every other failure shows when it is used. */
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
  const call: RpcMessage = session.host.encodeCall(to, fn, args);
  const { worker, sites } = session;
  const label = { kind: 'remote' as const, name: what.name };
  if (to.id === session.host.self.id) {
    const cell = Cell.empty();
    const entry = worker.createOwn(cell);
    const handle = session.adopt({ rref: idOf(entry), cell });
    handle.className = what.className;
    handle.creationBegins();
    const sent = session.host.call(to, remoteCall(call, idOf(entry), idOf(entry), []), { ...options, label });
    sent.then(
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
  const { fork, carried } = worker.create(sites.of(to));
  const handle = session.adopt({ fork });
  handle.className = what.className;
  handle.creationBegins();
  const header = [{ extension: session.name, data: encodeCarried(carried) }];
  const sent = session.host.call(to, remoteCall(call, fork.rref, idOf(fork), header), { ...options, label });
  followCreation(session, handle, fork, to, sent);
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

function remoteCall(call: RpcMessage, rref: GlobalId, fork: GlobalId, header: readonly HeaderEntry[]): RpcMessage {
  const type = call.type === MessageType.SCRIPT_CALL ? MessageType.SCRIPT_REMOTE_CALL : MessageType.PYTHON_REMOTE_CALL;
  const payload = writeWrappedPayload(call.payload, encodeCreation(rref, fork));
  return { type, id: 0n, payload, tensors: call.tensors, header: [...(call.header ?? []), ...header] };
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
