/** @file Bodies of messages to commands and back. */
import { MessageType as T, messageTypeName } from '@backwire/wire/internal';
import { refuse } from '../pickle/refusal.ts';
import type { ScriptContext } from '../pickle/script-reader.ts';
import * as autograd from './autograd.ts';
import * as calls from './calls.ts';
import type {
  Acknowledgement,
  Body,
  FetchCall,
  ForwardMessage,
  TorchCommand,
  TorchRequest,
  TorchResponse,
} from './commands.ts';
import { emptyBody } from './fields.ts';
import * as profiling from './profiling.ts';
import * as rrefs from './rrefs.ts';

/** The type of messages that carry commands of one kind, and their bodies both ways. */
interface Form<Command> {
  readonly type: number;
  readonly read: (body: Uint8Array, context: ScriptContext) => Command;
  readonly write: (command: never) => Body;
}
type Forms<Command> = Readonly<Record<string, Form<Command>>>;

function form<Command>(
  type: number,
  read: (body: Uint8Array, context: ScriptContext) => Command,
  write: (command: Command) => Body,
): Form<Command> {
  return { type, read, write };
}

function fetch(kind: FetchCall['kind'], type: number): Form<FetchCall> {
  return form(
    type,
    (body, context) => rrefs.readFetchCall(kind, body, context),
    (command) => rrefs.writeFetchCall(type, command),
  );
}

function fork<Kind extends 'rref-user-delete' | 'rref-fork-request' | 'remote-ret'>(kind: Kind, type: number) {
  return form(
    type,
    (body, context) => rrefs.readCreation(kind, body, context),
    (command) => rrefs.writeForkMessage(type, command),
  );
}

function forward(kind: ForwardMessage['kind'], type: number): Form<ForwardMessage> {
  return form(
    type,
    (body, context) => autograd.readForward(kind, body, context),
    (command) => autograd.writeForward(type, command),
  );
}

function acknowledgement(kind: Acknowledgement['kind'], type: number): Form<Acknowledgement> {
  const read = (body: Uint8Array): Acknowledgement => {
    if (body.length > 0) throw refuse(`an acknowledgement of ${body.length} bytes`);
    return { kind };
  };
  return form(type, read, () => emptyBody(type));
}

const REQUESTS = {
  'script-call': form(T.SCRIPT_CALL, calls.readScriptCall, calls.writeScriptCall),
  'script-remote-call': form(T.SCRIPT_REMOTE_CALL, calls.readScriptRemoteCall, calls.writeScriptRemoteCall),
  'python-call': form(T.PYTHON_CALL, calls.readPythonCall, calls.writePythonCall),
  'python-remote-call': form(T.PYTHON_REMOTE_CALL, calls.readPythonRemoteCall, calls.writePythonRemoteCall),
  'script-rref-fetch-call': fetch('script-rref-fetch-call', T.SCRIPT_RREF_FETCH_CALL),
  'python-rref-fetch-call': fetch('python-rref-fetch-call', T.PYTHON_RREF_FETCH_CALL),
  'rref-user-delete': fork('rref-user-delete', T.RREF_USER_DELETE),
  'rref-fork-request': fork('rref-fork-request', T.RREF_FORK_REQUEST),
  'rref-child-accept': form(T.RREF_CHILD_ACCEPT, rrefs.readChildAccept, rrefs.writeChildAccept),
  'forward-autograd-req': forward('forward-autograd-req', T.FORWARD_AUTOGRAD_REQ),
  'backward-autograd-req': form(T.BACKWARD_AUTOGRAD_REQ, autograd.readBackward, autograd.writeBackward),
  'cleanup-autograd-context-req': form(T.CLEANUP_AUTOGRAD_CONTEXT_REQ, autograd.readCleanup, autograd.writeCleanup),
  'rref-backward-req': form(T.RREF_BACKWARD_REQ, autograd.readRRefBackward, autograd.writeRRefBackward),
  'run-with-profiling-req': form(T.RUN_WITH_PROFILING_REQ, profiling.readRequest, profiling.writeRequest),
} satisfies Forms<TorchRequest>;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const RESPONSES = {
  'script-ret': form(T.SCRIPT_RET, calls.readScriptRet, calls.writeScriptRet),
  'python-ret': form(T.PYTHON_RET, calls.readPythonRet, calls.writePythonRet),
  'remote-ret': fork('remote-ret', T.REMOTE_RET),
  'script-rref-fetch-ret': form(T.SCRIPT_RREF_FETCH_RET, rrefs.readScriptFetchRet, rrefs.writeScriptFetchRet),
  'python-rref-fetch-ret': form(T.PYTHON_RREF_FETCH_RET, rrefs.readPythonFetchRet, rrefs.writePythonFetchRet),
  'rref-ack': acknowledgement('rref-ack', T.RREF_ACK),
  'forward-autograd-resp': forward('forward-autograd-resp', T.FORWARD_AUTOGRAD_RESP),
  'backward-autograd-resp': acknowledgement('backward-autograd-resp', T.BACKWARD_AUTOGRAD_RESP),
  'cleanup-autograd-context-resp': acknowledgement('cleanup-autograd-context-resp', T.CLEANUP_AUTOGRAD_CONTEXT_RESP),
  'rref-backward-resp': acknowledgement('rref-backward-resp', T.RREF_BACKWARD_RESP),
  'run-with-profiling-resp': form(T.RUN_WITH_PROFILING_RESP, profiling.readResponse, profiling.writeResponse),
  exception: form(
    T.EXCEPTION,
    (body) => ({ kind: 'exception', text: decoder.decode(body) }),
    ({ text }) => ({ type: T.EXCEPTION, body: encoder.encode(text), tensors: [] }),
  ),
} satisfies Forms<TorchResponse>;

const byType = <Command>(forms: Forms<Command>): ReadonlyMap<number, Form<Command>> =>
  new Map(Object.values(forms).map((one) => [one.type, one]));
const requests = byType<TorchRequest>(REQUESTS);
const responses = byType<TorchResponse>(RESPONSES);

/**
 * What a request says. Pickles of Python's side stay unread.
 * @throws WireError 'decode-error' or 'limit'; a type that torch does not send as a request is refused.
 */
export function readRequest({ type, body, tensors }: Body, context: Omit<ScriptContext, 'tensors'>): TorchRequest {
  const known = requests.get(type);
  if (known === undefined) throw refuse(`a request of type ${messageTypeName(type)}`);
  return known.read(body, { ...context, tensors });
}

/** What a response says; as `readRequest`. */
export function readResponse({ type, body, tensors }: Body, context: Omit<ScriptContext, 'tensors'>): TorchResponse {
  const known = responses.get(type);
  if (known === undefined) throw refuse(`a response of type ${messageTypeName(type)}`);
  return known.read(body, { ...context, tensors });
}

const FORMS: Readonly<Record<TorchCommand['kind'], Form<TorchCommand>>> = { ...REQUESTS, ...RESPONSES };

/** The body of a command. */
export function writeCommand(command: TorchCommand): Body {
  return FORMS[command.kind].write(command as never);
}
