/** @file Bodies of messages to commands and back. */
import { MessageType, messageTypeName } from '@backwire/wire/internal';
import { refuse } from '../pickle/refusal.ts';
import type { ScriptContext } from '../pickle/script-reader.ts';
import {
  readBackward,
  readCleanup,
  readForward,
  readRRefBackward,
  writeBackward,
  writeCleanup,
  writeForward,
  writeRRefBackward,
} from './autograd.ts';
import {
  readPythonCall,
  readPythonRemoteCall,
  readScriptCall,
  readScriptRemoteCall,
  readScriptRet,
  writePythonCall,
  writePythonRemoteCall,
  writeScriptCall,
  writeScriptRemoteCall,
  writeScriptRet,
} from './calls.ts';
import type { Body, ForwardMessage, TorchCommand, TorchRequest, TorchResponse } from './commands.ts';
import { emptyBody } from './fields.ts';
import {
  readProfilingRequest,
  readProfilingResponse,
  writeProfilingRequest,
  writeProfilingResponse,
} from './profiling.ts';
import {
  readChildAccept,
  readCreation,
  readFetchCall,
  readPythonFetchRet,
  readScriptFetchRet,
  writeChildAccept,
  writeFetchCall,
  writeForkMessage,
  writePythonFetchRet,
  writeScriptFetchRet,
} from './rrefs.ts';

const T = MessageType;

/**
 * What a request says. Pickles of Python's side stay unread.
 * @throws WireError 'decode-error' or 'limit'; a type that torch does not send as a request is refused.
 */
export function readRequest({ type, body, tensors }: Body, context: Omit<ScriptContext, 'tensors'>): TorchRequest {
  // The one that comes most, and needs nothing of the context.
  if (type === T.PYTHON_CALL) return readPythonCall(body, tensors);
  const script: ScriptContext = { ...context, tensors };
  switch (type) {
    case T.SCRIPT_CALL:
      return readScriptCall(body, script);
    case T.SCRIPT_REMOTE_CALL:
      return readScriptRemoteCall(body, script);
    case T.PYTHON_REMOTE_CALL:
      return readPythonRemoteCall(body, script);
    case T.SCRIPT_RREF_FETCH_CALL:
      return readFetchCall('script-rref-fetch-call', body, script);
    case T.PYTHON_RREF_FETCH_CALL:
      return readFetchCall('python-rref-fetch-call', body, script);
    case T.RREF_USER_DELETE:
      return readCreation('rref-user-delete', body, script);
    case T.RREF_FORK_REQUEST:
      return readCreation('rref-fork-request', body, script);
    case T.RREF_CHILD_ACCEPT:
      return readChildAccept(body, script);
    case T.FORWARD_AUTOGRAD_REQ:
      return readForward('forward-autograd-req', body, script);
    case T.BACKWARD_AUTOGRAD_REQ:
      return readBackward(body, script);
    case T.CLEANUP_AUTOGRAD_CONTEXT_REQ:
      return readCleanup(body, script);
    case T.RREF_BACKWARD_REQ:
      return readRRefBackward(body, script);
    case T.RUN_WITH_PROFILING_REQ:
      return readProfilingRequest(body, script);
    default:
      throw refuse(`a request of type ${messageTypeName(type)}`);
  }
}

const decoder = new TextDecoder();

/** What a response says; as `readRequest`. */
export function readResponse({ type, body, tensors }: Body, context: Omit<ScriptContext, 'tensors'>): TorchResponse {
  if (type === T.PYTHON_RET) return { kind: 'python-ret', pickled: body, tensors };
  const script: ScriptContext = { ...context, tensors };
  switch (type) {
    case T.SCRIPT_RET:
      return readScriptRet(body, script);
    case T.REMOTE_RET:
      return readCreation('remote-ret', body, script);
    case T.SCRIPT_RREF_FETCH_RET:
      return readScriptFetchRet(body, script);
    case T.PYTHON_RREF_FETCH_RET:
      return readPythonFetchRet(body, script);
    case T.RREF_ACK:
      return empty('rref-ack', body);
    case T.FORWARD_AUTOGRAD_RESP:
      return readForward('forward-autograd-resp', body, script);
    case T.BACKWARD_AUTOGRAD_RESP:
      return empty('backward-autograd-resp', body);
    case T.CLEANUP_AUTOGRAD_CONTEXT_RESP:
      return empty('cleanup-autograd-context-resp', body);
    case T.RREF_BACKWARD_RESP:
      return empty('rref-backward-resp', body);
    case T.RUN_WITH_PROFILING_RESP:
      return readProfilingResponse(body, script);
    case T.EXCEPTION:
      return { kind: 'exception', text: decoder.decode(body) };
    default:
      throw refuse(`a response of type ${messageTypeName(type)}`);
  }
}

type EmptyResponse = 'rref-ack' | 'backward-autograd-resp' | 'cleanup-autograd-context-resp' | 'rref-backward-resp';

function empty(kind: EmptyResponse, body: Uint8Array): TorchResponse {
  if (body.length > 0) throw refuse(`an acknowledgement of ${body.length} bytes`);
  return { kind };
}

const encoder = new TextEncoder();

/** The body of a command. */
export function writeCommand(command: TorchCommand): Body {
  switch (command.kind) {
    case 'script-call':
      return writeScriptCall(command);
    case 'script-remote-call':
      return writeScriptRemoteCall(command);
    case 'python-call':
      return writePythonCall(command);
    case 'python-remote-call':
      return writePythonRemoteCall(command);
    case 'script-rref-fetch-call':
      return writeFetchCall(T.SCRIPT_RREF_FETCH_CALL, command);
    case 'python-rref-fetch-call':
      return writeFetchCall(T.PYTHON_RREF_FETCH_CALL, command);
    case 'rref-user-delete':
      return writeForkMessage(T.RREF_USER_DELETE, command);
    case 'rref-fork-request':
      return writeForkMessage(T.RREF_FORK_REQUEST, command);
    case 'rref-child-accept':
      return writeChildAccept(command);
    case 'forward-autograd-req':
      return writeForward(T.FORWARD_AUTOGRAD_REQ, command);
    case 'forward-autograd-resp':
      return writeForward(T.FORWARD_AUTOGRAD_RESP, command);
    case 'backward-autograd-req':
      return writeBackward(command);
    case 'cleanup-autograd-context-req':
      return writeCleanup(command);
    case 'rref-backward-req':
      return writeRRefBackward(command);
    case 'run-with-profiling-req':
      return writeProfilingRequest(T.RUN_WITH_PROFILING_REQ, command);
    default:
      return writeResponse(command);
  }
}

function writeResponse(command: Exclude<TorchResponse, ForwardMessage>): Body {
  switch (command.kind) {
    case 'script-ret':
      return writeScriptRet(command);
    case 'script-rref-fetch-ret':
      return writeScriptFetchRet(command);
    case 'python-ret':
      return { type: T.PYTHON_RET, body: command.pickled, tensors: command.tensors };
    case 'python-rref-fetch-ret':
      return writePythonFetchRet(command);
    case 'remote-ret':
      return writeForkMessage(T.REMOTE_RET, command);
    case 'rref-ack':
      return emptyBody(T.RREF_ACK);
    case 'backward-autograd-resp':
      return emptyBody(T.BACKWARD_AUTOGRAD_RESP);
    case 'cleanup-autograd-context-resp':
      return emptyBody(T.CLEANUP_AUTOGRAD_CONTEXT_RESP);
    case 'rref-backward-resp':
      return emptyBody(T.RREF_BACKWARD_RESP);
    case 'run-with-profiling-resp':
      return writeProfilingResponse(T.RUN_WITH_PROFILING_RESP, command);
    case 'exception':
      return { type: T.EXCEPTION, body: encoder.encode(command.text), tensors: [] };
  }
}
