/** @file Messages about RRefs: fetching, and keeping count of who holds them. */
import { MessageType } from '@backwire/wire/internal';
import type { ScriptContext } from '../pickle/script-reader.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { creationIn, tensorsIn, writeCreation } from './calls.ts';
import type { Body, ChildAccept, Creation, FetchCall, PythonResult, ScriptResult } from './commands.ts';
import { fieldsIn, idFields, idIn, listIn, pickledIn, tupleBody, workerIn } from './fields.ts';

export function readFetchCall(
  kind: 'script-rref-fetch-call' | 'python-rref-fetch-call',
  body: Uint8Array,
  context: ScriptContext,
): FetchCall {
  const [rref, from] = fieldsIn(body, context, 2, 'a fetch');
  return { kind, rref: idIn(rref, 'the id of an RRef'), from: workerIn(from, 'the worker that fetches') };
}

export function writeFetchCall(type: number, { rref, from }: FetchCall): Body {
  return tupleBody(type, [idFields(rref), from]);
}

export function readScriptFetchRet(body: Uint8Array, context: ScriptContext): ScriptResult {
  const [value] = fieldsIn(body, context, 1, 'a fetched value');
  return { kind: 'script-rref-fetch-ret', value };
}

export function writeScriptFetchRet({ value }: { readonly value: unknown }): Body {
  return tupleBody(MessageType.SCRIPT_RREF_FETCH_RET, [value]);
}

export function readPythonFetchRet(body: Uint8Array, context: ScriptContext): PythonResult {
  const items = listIn(body, context, 1, 'a fetched value');
  const tensors = tensorsIn(items.slice(0, -1), context);
  return { kind: 'python-rref-fetch-ret', pickled: pickledIn(items.at(-1)), tensors };
}

export function writePythonFetchRet({ pickled, tensors }: PythonResult): Body {
  return tupleBody(MessageType.PYTHON_RREF_FETCH_RET, [...tensors, pickled]);
}

export function readCreation<K extends 'rref-user-delete' | 'rref-fork-request' | 'remote-ret'>(
  kind: K,
  body: Uint8Array,
  context: ScriptContext,
): { readonly kind: K } & Creation {
  return { kind, ...creationIn(fieldsIn(body, context, 2, 'a message about a fork')) };
}

/** REMOTE_RET, RREF_USER_DELETE and RREF_FORK_REQUEST. */
export function writeForkMessage(type: number, creation: Creation): Body {
  const writer = new ScriptWriter();
  writeCreation(writer, creation);
  writer.pair();
  return { type, body: writer.finish(), tensors: [] };
}

export function readChildAccept(body: Uint8Array, context: ScriptContext): ChildAccept {
  const [fork] = fieldsIn(body, context, 1, 'the acceptance of a child');
  return { kind: 'rref-child-accept', fork: idIn(fork, 'the id of a fork') };
}

export function writeChildAccept({ fork }: ChildAccept): Body {
  const writer = new ScriptWriter();
  writer.tuple(idFields(fork));
  writer.remember();
  writer.single();
  return { type: MessageType.RREF_CHILD_ACCEPT, body: writer.finish(), tensors: [] };
}
