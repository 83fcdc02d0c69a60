/** @file Failures on the wire: what a handler threw and what the system says, and how the caller gets them back. */
import { decodeProto, encodeProto, errorProto } from '@backwire/wire/internal';
import { detailsOf, rebuildWithDetails } from './error-details.ts';
import { errorTypeOf, isRpcErrorCode, RemoteError, RpcError, type Executed } from './errors.ts';
import { MAX_ERROR_TEXT, MAX_REMOTE_STACK } from './limits.ts';
import { type WorkerInfo } from './worker-info.ts';

const EXECUTED: readonly Executed[] = ['no', 'maybe', 'yes'];
const TO_WIRE = { no: 1, maybe: 2, yes: 3 } as const;

/** A failure of the system: the handler did not throw it. */
export function encodeSystemError(error: RpcError): Uint8Array {
  return encodeProto(errorProto.Error, {
    ...EMPTY,
    code: error.code,
    message: error.message.slice(0, MAX_ERROR_TEXT),
    executed: TO_WIRE[error.executed],
    retryable: error.retryable,
    peerName: error.peer?.name ?? '',
  });
}

/** What a handler threw: anything at all, errors whose own fields throw among them. Never throws: the caller waits for it. */
export function encodeThrown(thrown: unknown): Uint8Array {
  const error = asError(thrown);
  return encodeProto(errorProto.Error, {
    ...EMPTY,
    code: error instanceof RpcError ? error.code : 'remote-error',
    message: (error === undefined ? textOf(thrown) : textIn(() => error.message)).slice(0, MAX_ERROR_TEXT),
    name: (error === undefined ? typeof thrown : textIn(() => className(error))) || 'Error',
    stack: (error === undefined ? '' : textIn(() => error.stack)).slice(0, MAX_REMOTE_STACK),
    executed: TO_WIRE.yes,
    details: error === undefined ? EMPTY.details : detailsOf(error),
  });
}

function asError(thrown: unknown): Error | undefined {
  try {
    return thrown instanceof Error ? thrown : undefined;
  } catch {
    return undefined; // a proxy that does not say what it is
  }
}

/** The text of a field that may be missing, may be no text, or may throw. */
function textIn(read: () => unknown): string {
  try {
    const value = read();
    return typeof value === 'string' ? value : value === undefined ? '' : textOf(value);
  } catch {
    return 'a value that cannot be read';
  }
}

/** The error that the caller gets; `from` is who sent it. Throws WireError 'decode-error'. */
export function decodeFailure(bytes: Uint8Array, from: WorkerInfo): Error {
  const plain = decodeProto(errorProto.Error, bytes, 'error');
  const code = isRpcErrorCode(plain.code) ? plain.code : 'remote-error';
  const executed = EXECUTED[plain.executed - 1] ?? 'maybe';
  if (plain.name === '') return new RpcError(code, plain.message, { executed, retryable: plain.retryable, peer: from });
  const remote = new RemoteError(`On ${from.toString()}:\n${plain.name}: ${plain.message}`, {
    remoteName: plain.name,
    remoteStack: plain.stack === '' ? undefined : plain.stack,
    executed: 'yes',
    peer: from,
  });
  if (plain.name === 'RpcError' || plain.name === 'RemoteError') {
    return new RpcError(code, plain.message, { executed: 'yes', retryable: false, peer: from, cause: remote });
  }
  return rebuild(plain, remote) ?? remote;
}

function rebuild({ name, message, details }: errorProto.Error, cause: RemoteError): Error | undefined {
  const ctor = errorTypeOf(name);
  try {
    const error = ctor === undefined ? rebuildWithDetails(name, message, details) : new ctor(message);
    if (error === undefined) return undefined;
    Object.defineProperty(error, 'cause', { value: cause, writable: true, configurable: true });
    return error;
  } catch {
    return undefined;
  }
}

/** `error.name` is inherited unless a class sets it; the class's own name says more. */
function className(error: Error): string {
  const ctor: unknown = error.constructor;
  const name = typeof ctor === 'function' && ctor.name !== '' ? ctor.name : error.name;
  return name === '' ? 'Error' : name;
}

function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return 'a value that cannot be shown';
  }
}

const EMPTY: errorProto.Error = {
  code: '',
  message: '',
  name: '',
  stack: '',
  executed: 0,
  retryable: false,
  peerName: '',
  peer: undefined,
  cause: undefined,
  details: new Uint8Array(0),
};
