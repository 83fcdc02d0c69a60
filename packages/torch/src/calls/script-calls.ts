/** @file Calls of operators and of TorchScript functions, written. */
import { MessageType } from '@backwire/wire/internal';
import type { Body } from '../messages/commands.ts';
import { calleeFields } from '../messages/calls.ts';
import { overloadFor } from '../operators/choose.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { tupleOf } from '../values/containers.ts';
import type { RRefFork } from '../values/objects.ts';
import type { Creation } from '../messages/commands.ts';
import { idFields } from '../messages/fields.ts';
import { SCRIPT_PREFIX, argumentsOf } from './targets.ts';

type Replace = (value: object) => RRefFork | undefined;

/** The call of an operator, or one that leaves its result where it is made. @throws TypeError for arguments that no overload takes. */
export function writeOperatorCall(name: string, args: readonly unknown[], creation?: Creation): Body {
  const { positional, kwargs } = argumentsOf(args);
  const { schema, values } = overloadFor(name, positional, kwargs);
  return script(values, calleeFields({ schema }), creation);
}

/** The call of a TorchScript function. Its signature is its own worker's to check. */
export function writeScriptFunctionCall(
  name: string,
  args: readonly unknown[],
  replace: Replace,
  creation?: Creation,
): Body {
  const { positional, kwargs } = argumentsOf(args);
  if (kwargs.size > 0)
    throw new TypeError(
      `a call of '${name.slice(SCRIPT_PREFIX.length)}' has keyword arguments, whose places are not known here`,
    );
  return script(positional, calleeFields({ function: name, isAsync: false }), creation, replace);
}

function script(
  args: readonly unknown[],
  callee: readonly unknown[],
  creation: Creation | undefined,
  replace?: Replace,
): Body {
  const writer = new ScriptWriter(replace === undefined ? {} : { replace });
  const ids = creation === undefined ? [] : [idFields(creation.rref), idFields(creation.fork)];
  writer.tuple(tupleOf([...args, ...callee, ...ids]));
  const type = creation === undefined ? MessageType.SCRIPT_CALL : MessageType.SCRIPT_REMOTE_CALL;
  return { type, body: writer.finish(), tensors: writer.tensors };
}
