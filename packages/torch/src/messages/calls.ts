/** @file Calls: by schema, of TorchScript functions, and of Python functions; their results and failures. */
import { MessageType } from '@backwire/wire/internal';
import { quoted, refuse } from '../pickle/refusal.ts';
import { readScript, type ScriptContext } from '../pickle/script-reader.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import type { TravellingTensor } from '../values/opaque-tensor.ts';
import type {
  Body,
  Creation,
  PythonCall,
  PythonRemoteCall,
  PythonResult,
  ScriptCall,
  ScriptCallee,
  ScriptRemoteCall,
  ScriptResult,
} from './commands.ts';
import { flagIn, idFields, idIn, listIn, pickledIn, textIn, tupleBody } from './fields.ts';

const OPERATORS = 'torch.ops.aten.';
const NAMESPACE = 'aten::';

/** 'torch.ops.aten.add' for 'aten::add.Tensor(…) -> Tensor'. */
export function operatorOf(schema: string): string {
  const match = /^aten::([A-Za-z_]\w{0,127})(?:\.\w{1,128})?\(/.exec(schema);
  if (match === null) throw refuse(`${quoted(schema)} is no schema of an operator of ${NAMESPACE}`);
  return OPERATORS + (match[1] as string);
}

/** The values after the arguments: (schema, operator) or (is async, function). */
export function calleeFields(callee: ScriptCallee): unknown[] {
  if ('schema' in callee) return [callee.schema, operatorOf(callee.schema)];
  return [callee.isAsync, callee.function];
}

function calleeIn(items: readonly unknown[]): { callee: ScriptCallee; args: readonly unknown[] } {
  if (items.length < 2) throw refuse('a call without a name');
  const name = textIn(items.at(-1), 'the name of what is called');
  const args = items.slice(0, -2);
  if (!name.startsWith(OPERATORS)) {
    if (!name.startsWith('__torch__.')) throw refuse(`${quoted(name)} is no TorchScript function`);
    return { callee: { function: name, isAsync: flagIn(items.at(-2), 'the word whether a call is async') }, args };
  }
  const schema = textIn(items.at(-2), 'the schema of what is called');
  if (operatorOf(schema) !== name) throw refuse(`the schema of ${quoted(name)} is another operator's`);
  return { callee: { schema }, args };
}

export function readScriptCall(body: Uint8Array, context: ScriptContext): ScriptCall {
  return { kind: 'script-call', ...calleeIn(listIn(body, context, 2, 'a call of an operator')) };
}

export function writeScriptCall({ callee, args }: ScriptCall): Body {
  return tupleBody(MessageType.SCRIPT_CALL, [...args, ...calleeFields(callee)]);
}

export function readScriptRemoteCall(body: Uint8Array, context: ScriptContext): ScriptRemoteCall {
  const items = listIn(body, context, 4, 'a remote call of an operator');
  return { kind: 'script-remote-call', ...calleeIn(items.slice(0, -2)), ...creationIn(items.slice(-2)) };
}

export function writeScriptRemoteCall({ callee, args, rref, fork }: ScriptRemoteCall): Body {
  const values = [...args, ...calleeFields(callee), idFields(rref), idFields(fork)];
  return tupleBody(MessageType.SCRIPT_REMOTE_CALL, values);
}

export function readScriptRet(body: Uint8Array, context: ScriptContext): ScriptResult {
  return { kind: 'script-ret', value: readScript(body, context) };
}

export function writeScriptRet({ value }: { readonly value: unknown }): Body {
  const writer = new ScriptWriter();
  writer.value(value);
  return { type: MessageType.SCRIPT_RET, body: writer.finish(), tensors: writer.tensors };
}

type Tensors = readonly TravellingTensor[];

export function readPythonCall(body: Uint8Array, { tensors }: ScriptContext): PythonCall {
  const first = body[0];
  if (first === undefined || first > 1) throw refuse('a call without the word whether it is async');
  return { kind: 'python-call', isAsync: first === 1, pickled: body.subarray(1), tensors };
}

export function writePythonCall({ isAsync, pickled, tensors }: PythonCall): Body {
  const body = new Uint8Array(1 + pickled.length);
  body[0] = isAsync ? 1 : 0;
  body.set(pickled, 1);
  return { type: MessageType.PYTHON_CALL, body, tensors };
}

export function readPythonRet(pickled: Uint8Array, { tensors }: ScriptContext): PythonResult {
  return { kind: 'python-ret', pickled, tensors };
}

export function writePythonRet({ pickled, tensors }: PythonResult): Body {
  return { type: MessageType.PYTHON_RET, body: pickled, tensors };
}

export function readPythonRemoteCall(body: Uint8Array, context: ScriptContext): PythonRemoteCall {
  const items = listIn(body, context, 4, 'a remote call of a function');
  const tensors = tensorsIn(items.slice(0, -4), context);
  const [pickled, rref, fork, isAsync] = items.slice(-4);
  return {
    kind: 'python-remote-call',
    isAsync: flagIn(isAsync, 'the word whether a remote call is async'),
    pickled: pickledIn(pickled),
    tensors,
    ...creationIn([rref, fork]),
  };
}

export function writePythonRemoteCall({ isAsync, pickled, tensors, rref, fork }: PythonRemoteCall): Body {
  const writer = new ScriptWriter();
  writer.marked(() => {
    for (const tensor of tensors) writer.tensor(tensor);
    writer.bytes(pickled);
    writeCreation(writer, { rref, fork });
    writer.value(isAsync);
  });
  return { type: MessageType.PYTHON_REMOTE_CALL, body: writer.finish(), tensors: writer.tensors };
}

/** (rref, fork) */
export function creationIn([rref, fork]: readonly unknown[]): Creation {
  return { rref: idIn(rref, 'the id of an RRef'), fork: idIn(fork, 'the id of a fork') };
}

/** Both ids, as torch writes them where it remembers them. */
export function writeCreation(writer: ScriptWriter, { rref, fork }: Creation): void {
  for (const id of [rref, fork]) {
    writer.tuple(idFields(id));
    writer.remember();
  }
}

/** The tensors that stand before a pickle, which have to be all of the message's, in their order. */
export function tensorsIn(items: readonly unknown[], { tensors }: ScriptContext): Tensors {
  if (items.length !== tensors.length || items.some((item, i) => item !== tensors[i]))
    throw refuse('a pickle whose tensors are not those of its message');
  return tensors;
}
