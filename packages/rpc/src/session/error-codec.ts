/** @file Failures on the wire: what a handler threw and what the system says, and how the caller gets them back. */
import { decodeProto, encodeProto, errorProto } from '@backwire/wire/internal';
import { attempt } from '../base/attempt.ts';
import { detailsOf, rebuildWithDetails } from './error-details.ts';
import {
  addProperties,
  describeThrown,
  propertiesOf,
  readProperties,
  type ErrorProperties,
  type Room,
} from './error-properties.ts';
import { classNameOf, isRpcErrorName } from '../base/error-name.ts';
import { errorTypeOf } from '../base/error-types.ts';
import { bareText, isRpcErrorCode, RemoteError, RpcError, type Executed } from '../base/errors.ts';
import {
  MAX_CAUSE_TEXT,
  MAX_ERROR_CAUSES,
  MAX_ERROR_DETAILS,
  MAX_ERROR_TEXT,
  MAX_REMOTE_STACK,
} from '../base/limits.ts';
import { type WorkerInfo } from '../base/worker-info.ts';

const EXECUTED: readonly Executed[] = ['no', 'maybe', 'yes'];
const TO_WIRE = { no: 1, maybe: 2, yes: 3 } as const;
/** What every RpcError has: it travels by its code. */
const RPC_ERROR_FIELDS: ReadonlySet<string> = new Set(['code', 'executed', 'retryable', 'peer']);
/** What a RemoteError has beside them travels as its properties, so that it is one again after the next hop. */
const REMOTE_ERROR_FIELDS: ReadonlySet<string> = new Set(['remoteName', 'remoteStack', 'properties']);

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
  return encodeProto(errorProto.Error, describe(thrown, { left: MAX_ERROR_DETAILS }, MAX_ERROR_TEXT, new Set()));
}

/** An error with its properties and causes, which share the room; `seen` ends a circle of causes. */
function describe(thrown: unknown, room: Room, maxText: number, seen: Set<unknown>): errorProto.Error {
  seen.add(thrown);
  const error = asError(thrown);
  const shared = { ...EMPTY, executed: TO_WIRE.yes };
  if (error === undefined) {
    const isObject = typeof thrown === 'object' && thrown !== null;
    return {
      ...shared,
      code: 'remote-error',
      message: describeThrown(thrown).slice(0, maxText),
      name: typeof thrown,
      properties: isObject ? propertiesOf(thrown, room) : EMPTY.properties,
    };
  }
  const cause = causeOf(error, seen);
  const inner = asError(cause);
  const ofSystem = error instanceof RpcError;
  return {
    ...shared,
    code: ofSystem ? error.code : 'remote-error',
    message: textIn(() => error.message).slice(0, maxText),
    name: textIn(() => classNameOf(error)) || 'Error',
    stack: textIn(() => error.stack).slice(0, Math.min(maxText, MAX_REMOTE_STACK)),
    details: detailsOf(error),
    properties: propertiesOf(
      error,
      room,
      ofSystem ? (name) => RPC_ERROR_FIELDS.has(name) : undefined,
      inner === undefined ? cause : undefined,
    ),
    cause: inner === undefined ? undefined : describe(inner, room, MAX_CAUSE_TEXT, seen),
  };
}

/** The cause of an error, unless it was there already or there are too many. */
function causeOf(error: Error, seen: ReadonlySet<unknown>): unknown {
  return attempt(() => {
    const { cause } = error;
    return seen.has(cause) || seen.size > MAX_ERROR_CAUSES ? undefined : cause;
  });
}

function asError(thrown: unknown): Error | undefined {
  // A proxy may not say what it is.
  return attempt(() => (thrown instanceof Error ? thrown : undefined));
}

/** The text of a field that may be missing, may be no text, or may throw. */
function textIn(read: () => unknown): string {
  try {
    const value = read();
    return typeof value === 'string' ? value : value === undefined ? '' : describeThrown(value);
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
  const properties = readProperties(plain.properties);
  const cause = causeIn(plain, properties, from, 0);
  const said = isRpcErrorName(plain.name) ? bareText(code, plain.message) : plain.message;
  const remote = new RemoteError(`On ${from.toString()}:\n${plain.name}: ${said}`, {
    remoteName: plain.name,
    remoteStack: plain.stack === '' ? undefined : plain.stack,
    properties,
    executed: 'yes',
    peer: from,
    ...(cause === undefined ? {} : { cause }),
  });
  if (isRpcErrorName(plain.name)) return passedOn(plain, properties, from, remote);
  const rebuilt = rebuild(plain, properties, remote);
  if (rebuilt !== undefined) return rebuilt;
  addProperties(remote, properties, (name) => name in remote);
  return remote;
}

/** An error of the system, or of a handler further on, that a handler threw: of the class, code and text that it had there. */
function passedOn(plain: errorProto.Error, properties: ErrorProperties, peer: WorkerInfo, cause: unknown): RpcError {
  const fields = { executed: 'yes', retryable: false, peer, ...(cause === undefined ? {} : { cause }) } as const;
  const { remoteName, remoteStack, properties: own } = properties;
  const isRemote = plain.name === 'RemoteError' && typeof remoteName === 'string';
  const error = isRemote
    ? new RemoteError(plain.message, {
        ...fields,
        remoteName,
        remoteStack: typeof remoteStack === 'string' ? remoteStack : undefined,
        properties: typeof own === 'object' && own !== null ? (own as ErrorProperties) : {},
      })
    : new RpcError(isRpcErrorCode(plain.code) ? plain.code : 'remote-error', plain.message, fields);
  addProperties(error, properties, (name) => name in error || REMOTE_ERROR_FIELDS.has(name));
  return error;
}

/** What an error says is its cause: an error made again, or a value. */
function causeIn(plain: errorProto.Error, properties: ErrorProperties, from: WorkerInfo, depth: number): unknown {
  if (plain.cause === undefined || depth >= MAX_ERROR_CAUSES) return properties['cause'];
  const inner = plain.cause;
  const own = readProperties(inner.properties);
  const cause = causeIn(inner, own, from, depth + 1);
  const error = isRpcErrorName(inner.name)
    ? passedOn(inner, own, from, undefined)
    : (rebuild(inner, own, undefined) ?? named(inner.name, inner.message, own));
  if (cause !== undefined) Object.defineProperty(error, 'cause', { value: cause, writable: true, configurable: true });
  // Our own stack would point into this file, which says nothing.
  const stack = inner.stack === '' ? `${inner.name}: ${inner.message}` : inner.stack;
  Object.defineProperty(error, 'stack', { value: stack, writable: true, configurable: true });
  return error;
}

/** An error of a class that is not known here. */
function named(name: string, message: string, properties: ErrorProperties): Error {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });
  addProperties(error, properties, () => false);
  return error;
}

function rebuild(
  { name, message, details }: errorProto.Error,
  properties: ErrorProperties,
  cause: RemoteError | undefined,
): Error | undefined {
  const ctor = errorTypeOf(name);
  return attempt(() => {
    const error = ctor === undefined ? rebuildWithDetails(name, message, details) : new ctor(message);
    if (error === undefined) return undefined;
    addProperties(error, properties, () => false);
    if (cause !== undefined)
      Object.defineProperty(error, 'cause', { value: cause, writable: true, configurable: true });
    return error;
  });
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
  properties: new Uint8Array(0),
};
