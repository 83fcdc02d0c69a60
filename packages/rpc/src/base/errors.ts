/** @file The errors of the system, and that of a handler that threw. */
import { bare } from './shown.ts';

/** The closed table of everything the system itself can fail with. */
export const RPC_ERROR_CODES = Object.freeze([
  'deadline-exceeded',
  'cancelled',
  'peer-died',
  'owner-died',
  'unavailable',
  'draining',
  'resource-exhausted',
  'unauthenticated',
  'permission-denied',
  'not-found',
  'rref-released',
  'barrier-broken',
  'fenced',
  'version-mismatch',
  'protocol-error',
  'decode-error',
  'remote-error',
  'invalid-argument',
  'failed-precondition',
] as const);

/** What went wrong. */
export type RpcErrorCode = (typeof RPC_ERROR_CODES)[number];

const CODES: ReadonlySet<unknown> = new Set(RPC_ERROR_CODES);

/** Whether `code`, which may come from anywhere, is one of the table. */
export function isRpcErrorCode(code: unknown): code is RpcErrorCode {
  return CODES.has(code);
}

/** Whether the handler ran: certainly not, unknown, or certainly. */
export type Executed = 'no' | 'maybe' | 'yes';

/** A `WorkerInfo`: the class stands above this file, since it throws these errors. */
export interface ErrorPeer {
  readonly name: string;
  readonly id: number;
  toString(): string;
  toJSON(): { name: string; id: number };
}

export interface RpcErrorFields {
  /** @default 'no' */
  readonly executed?: Executed;
  /** Whether the same call may be sent again without doing its work twice. @default by code and `executed` */
  readonly retryable?: boolean;
  readonly peer?: ErrorPeer | undefined;
  readonly cause?: unknown;
}

/** Codes that name a passing condition: the same call may succeed later. */
const PASSING: ReadonlySet<RpcErrorCode> = new Set(['unavailable', 'draining', 'resource-exhausted', 'peer-died']);

/**
 * Every failure of the system itself. An abort is 'cancelled' with `cause` = the signal's reason.
 * @example
 * ```ts workers=worker1
 * const slow = rpcFunction('example/slow', () => new Promise((resolve) => setTimeout(resolve, 200)));
 * try {
 *   await rpcSync('worker1', slow, [], { timeoutMs: 20 });
 * } catch (error) {
 *   if (!(error instanceof RpcError)) throw error;
 *   console.log(error.code, error.peer?.name, error.retryable); // deadline-exceeded worker1 false
 * }
 * ```
 */
export class RpcError extends Error {
  readonly code: RpcErrorCode;
  /** Whether the handler ran. */
  readonly executed: Executed;
  /** Whether the same call may be sent again without doing its work twice. */
  readonly retryable: boolean;
  /** The worker the failure is about. */
  readonly peer: ErrorPeer | undefined;

  constructor(code: RpcErrorCode, text: string, fields: RpcErrorFields = {}) {
    super(`${bareText(code, bare(text))} [${code}]`, 'cause' in fields ? { cause: fields.cause } : undefined);
    this.code = code;
    this.executed = fields.executed ?? 'no';
    this.retryable = fields.retryable ?? (this.executed === 'no' && PASSING.has(code));
    this.peer = fields.peer;
  }

  /** The RpcError in `error`, or a `remote-error`-free wrapping of it: an abort becomes `cancelled`, anything else `failed-precondition`. */
  static from(error: unknown): RpcError {
    const known = rpcInfo(error);
    if (known !== undefined) return known;
    const text = error instanceof Error ? error.message : String(error);
    if (error instanceof Error && error.name === 'TimeoutError') {
      return new RpcError('deadline-exceeded', text, { executed: 'maybe', cause: error });
    }
    if (error instanceof Error && error.name === 'AbortError') {
      return new RpcError('cancelled', text, { executed: 'maybe', cause: error });
    }
    return new RpcError('failed-precondition', text, { cause: error });
  }
}
Object.defineProperty(RpcError.prototype, 'name', { value: 'RpcError', configurable: true, writable: true });

/** What a program gave, or an address or a file says, cannot be meant. */
export function invalidArgument(text: string): RpcError {
  return new RpcError('invalid-argument', text);
}

/** What wants an optional package, which is not installed. It is imported in a `try`: so bundlers, webpack too, know that it may be missing. */
export function missingPackage(what: string, name: string, cause: unknown): RpcError {
  return new RpcError('failed-precondition', `${what} needs the package '${name}': npm install ${name}`, { cause });
}

export interface RemoteErrorFields extends RpcErrorFields {
  readonly remoteName: string;
  readonly remoteStack: string | undefined;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/**
 * The handler threw. A class known here (standard or registered) is rebuilt as itself, with this as its cause. What the error itself said
 * was its cause is the `cause` of this.
 */
export class RemoteError extends RpcError {
  /** The name of the class that the handler threw. */
  readonly remoteName: string;
  /** The stack on the worker that threw; undefined when it keeps its stacks to itself. */
  readonly remoteStack: string | undefined;
  /**
   * The error's own enumerable properties that are values ('status', 'code' …): 64 of them and 64 KiB at most. They are properties of the
   * error that is rebuilt, too; of this one only those whose names it has no use for itself.
   */
  readonly properties: Readonly<Record<string, unknown>>;

  constructor(text: string, fields: RemoteErrorFields) {
    super('remote-error', text, { ...fields, executed: fields.executed ?? 'yes' });
    this.remoteName = fields.remoteName;
    this.remoteStack = fields.remoteStack;
    this.properties = fields.properties ?? {};
  }
}
Object.defineProperty(RemoteError.prototype, 'name', { value: 'RemoteError', configurable: true, writable: true });

/** A message without its code, wherever that stands: behind it, or before it as workers of earlier versions write it. */
export function bareText(code: string, text: string): string {
  const behind = ` [${code}]`;
  const before = `${code}: `;
  if (text.endsWith(behind)) return text.slice(0, -behind.length);
  return text.startsWith(before) ? text.slice(before.length) : text;
}

/** A state that cannot be reached: a defect of the library, never the fault of its input. */
export class InvariantError extends Error {}
Object.defineProperty(InvariantError.prototype, 'name', {
  value: 'InvariantError',
  configurable: true,
  writable: true,
});

/**
 * The RpcError that `error` is or was caused by; undefined when the system had no part in it.
 * @param error what was caught
 * @example
 * ```ts workers=worker1
 * const refuse = rpcFunction('example/refuse', () => {
 *   throw new RangeError('too many');
 * });
 * try {
 *   await rpcSync('worker1', refuse);
 * } catch (error) {
 *   const info = rpcInfo(error);
 *   console.log(error instanceof RangeError, info?.code, info?.executed, info?.retryable); // true remote-error yes false
 * }
 * ```
 */
export function rpcInfo(error: unknown): RpcError | undefined {
  const seen = new Set<unknown>();
  let at: unknown = error;
  while (at instanceof Error && !seen.has(at)) {
    if (at instanceof RpcError) return at;
    seen.add(at);
    at = at.cause;
  }
  return undefined;
}
