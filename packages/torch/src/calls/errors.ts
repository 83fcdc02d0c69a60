/** @file Failures of calls: what a worker of torch said, as an error here; and an error of a handler, as what Python raises. */
import { RemoteError, RpcError, type RpcErrorCode, type WorkerInfo } from '@backwire/rpc';
import { describeThrown, errorTypeOf, isRpcErrorCode } from '@backwire/rpc/internal';
import { WireError } from '@backwire/wire/internal';
import { exceptionOf, nameOfError } from '../pickle/exceptions.ts';
import { NotOfferedError, quoted } from '../pickle/refusal.ts';
import { PyException, RemoteException } from '../values/objects.ts';

const MAX_TEXT = 65_536;
/** Where torch's texts go on with stacks of C++, or of the Python code that rethrew. */
const STACK = /\n\nAt:\n|\nException raised from /;

/** Stands before the stack in errors of workers of this kind, which write escapes: Python's own do not. */
const OWN_STACK = 'Stack (JavaScript, latest first):';

function unescaped(text: string): string {
  return text.replace(/\\(?:\\|U([0-9a-f]{8}))/g, (_, code: string | undefined) =>
    code === undefined ? '\\' : String.fromCodePoint(Math.min(parseInt(code, 16), 0x10ffff)),
  );
}

/** What a Python function raised. The class is the one registered under its name, else RemoteError, which is the cause otherwise. */
export function raised({ message: written, type }: RemoteException, from: WorkerInfo): Error {
  const message = written.includes(`\n${OWN_STACK}\n`) ? unescaped(written) : written;
  // What a peer calls its class: only what may be the name of one.
  const name = /^[A-Za-z_]\w{0,127}$/.test(type.name) ? type.name : 'Exception';
  const [head = ''] = message.split('\n', 1);
  const shown = /^On WorkerInfo\(/.test(head) ? message.slice(head.length + 1) : message;
  // The class as its own worker shows it: what crossed as the nearest class of Python is found again.
  const own = /^([A-Za-z_]\w*)\(/.exec(shown)?.[1] ?? name;
  const text = textOf(shown, [own, name]);
  const cause = new RemoteError(`On ${from.toString()}:\n${own}: ${text}`, {
    remoteName: own,
    remoteStack: message,
    peer: from,
  });
  const code = own === 'RpcError' ? codeIn(text) : undefined;
  if (code !== undefined) return new RpcError(code, text, { executed: 'yes', retryable: false, peer: from, cause });
  const known = errorTypeOf(own);
  if (known === undefined) return cause;
  const error = new known(text);
  Object.defineProperty(error, 'cause', { value: cause, writable: true, configurable: true });
  return error;
}

/** The text of an error in the lines that tell of it: behind the last line of its stack. */
function textOf(shown: string, names: readonly string[]): string {
  const frames = Math.max(shown.lastIndexOf('\n  File "'), shown.lastIndexOf('\n    at '));
  const from = frames < 0 ? 0 : frames + 1;
  for (const name of names) {
    const match = new RegExp(`^(?:[\\w.]*\\.)?${name}(?:: |$)`, 'm').exec(shown.slice(from));
    if (match !== null) return shown.slice(from + match.index + match[0].length).replace(/\n$/, '');
  }
  return shown.replace(/\n$/, '');
}

const PREFIX = /^(?:Error on Node \d+: )*/;

/** The code of the system's own errors, which stands behind their text, or before that of others. */
function codeIn(text: string): RpcErrorCode | undefined {
  const code = / \[([a-z-]+)\]$/.exec(text)?.[1] ?? /^([a-z-]+): /.exec(text)?.[1];
  return isRpcErrorCode(code) ? code : undefined;
}

/** What torch says of an RRef that comes back to its owner as a tensor's, the type that a TorchScript function does not tell its caller. */
const NO_TENSOR = /Expect OwnerRRef to be a sub-type of TensorType/;

/** What a worker answers that did not run what was asked, or whose own code failed. */
export function refused(text: string, from: WorkerInfo): RpcError {
  const [said = ''] = text.split(STACK, 1);
  const plain = said.replace(PREFIX, '');
  const code = codeIn(plain);
  if (code !== undefined && code !== 'remote-error') return new RpcError(code, plain, { executed: 'no', peer: from });
  const name = /^([A-Za-z_]\w*(?:Error|Exception)): /.exec(plain)?.[1] ?? 'RuntimeError';
  if (NO_TENSOR.test(plain)) {
    const why = `worker '${from.name}' takes back RRefs of what TorchScript functions make only of tensors, and this one is of something else: fetch it with toHere(), or make it with a Python function, as in py('module.name')`;
    const cause = new RemoteError(said, { remoteName: name, remoteStack: plain, executed: 'no', peer: from });
    return new RpcError('failed-precondition', why, { executed: 'no', peer: from, cause });
  }
  const stack = said.length < text.length ? text : undefined;
  return new RemoteError(said, { remoteName: name, remoteStack: stack, executed: 'maybe', peer: from });
}

/** The error of a request that is larger than may be sent; any other as it is. */
export function unsent(error: unknown, to: WorkerInfo): unknown {
  if (!(error instanceof WireError)) return error;
  const text = `the call of worker '${to.name}' cannot be sent: ${error.message}`;
  return new RpcError(codeOf(error), text, { executed: 'no', retryable: false, peer: to, cause: error });
}

/** The error of an answer that cannot be read; any other as it is. The function has run. */
export function unread(error: unknown, from: WorkerInfo): unknown {
  if (!(error instanceof WireError)) return error;
  const text = `the answer of worker '${from.name}' cannot be read: ${error.message}`;
  return new RpcError(codeOf(error), text, { executed: 'yes', retryable: false, peer: from, cause: error });
}

function codeOf({ code }: WireError): RpcErrorCode {
  return code === 'limit' ? 'resource-exhausted' : 'decode-error';
}

/** What an error that a handler threw becomes in Python. */
export function raising(thrown: unknown, self: WorkerInfo): RemoteException {
  const error = readable(thrown);
  const type = error instanceof PyException ? error.type : exceptionOf(error).callee;
  const name = nameOf(error);
  const message = error.message.slice(0, MAX_TEXT);
  const frames = (error.stack ?? '')
    .slice(0, MAX_TEXT)
    .split('\n')
    .filter((line) => /^ {4}at /.test(line));
  const lines = [`On ${self.toString()}:`, `${name}('${message}')`, OWN_STACK];
  return RemoteException.saying([...lines, ...frames, `${name}: ${message}\n`].join('\n'), type);
}

/** The error itself where its parts are what those of errors are; else one that says what can be said of it: anything can be thrown. */
function readable(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) {
      const { message, stack = '', name, constructor: made } = thrown;
      const parts = [message, stack, name, (made as { readonly name?: unknown } | undefined)?.name];
      if (parts.every((part) => typeof part === 'string')) return thrown;
    }
  } catch {
    // It throws when it is asked.
  }
  return new Error(describeThrown(thrown));
}

function nameOf(error: Error): string {
  if (error instanceof PyException) return error.type.name;
  const name = nameOfError(error);
  return /^[A-Za-z_]\w*$/.test(name) ? name : 'Error';
}

/** What a call that is not run is answered with. */
export function refusal(thrown: unknown): string {
  const error = readable(thrown);
  if (error instanceof NotOfferedError)
    return `${quoted(error.global)} is not offered by this worker: define it with rpcFunction() or rpcClass(), or offer() it [not-found]`;
  const whole = error !== thrown || error instanceof WireError || error instanceof RpcError;
  return whole ? error.message : `${error.name}: ${error.message}`;
}
