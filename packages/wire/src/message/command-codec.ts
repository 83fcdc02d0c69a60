/** @file Typed commands to messages and back; what PyTorch's `deserializeRequest` and `deserializeResponse` do, without side effects. */
import { type Tensor } from '@backwire/tensor';
import { COMMAND_TYPES, type Command, type KnownCommand } from './commands.ts';
import { invalidArgument } from './command-ids.ts';
import { contents } from './command-contents.ts';
import { decodeError } from '../errors.ts';
import { type Message } from './message.ts';
import { type MessageType, isRequest, isResponse, messageTypeName } from './message-type.ts';

/** Wrapped messages inside wrapped messages: profiling around autograd around a call is two. */
const MAX_WRAPS = 8;
/** A message that no agent has sent yet. */
const UNSENT = -1n;

const kinds: ReadonlyMap<MessageType, KnownCommand['kind']> = new Map(
  (Object.entries(COMMAND_TYPES) as [KnownCommand['kind'], MessageType][]).map(([kind, type]) => [type, kind]),
);

/** A response taken apart. */
export interface DecodedResponse {
  /** The answer itself: what was wrapped, when it was wrapped. */
  readonly command: Command;
  /** The type of `command`. */
  readonly wrappedType: MessageType;
  /** The wrappers around it, outermost first: autograd and profiling metadata. */
  readonly wraps: readonly Command[];
}

/** The message of a request. Its tensors are those in the command, in order. @throws TypeError for a command that is no request. */
export function serializeRequest(command: Command): Message {
  const message = toMessage(command, 0);
  if (!isRequest(message.type)) throw new TypeError(`'${command.kind}' is not a request: use serializeResponse()`);
  return message;
}

/** The command of a request. @throws WireError 'decode-error'. */
export function deserializeRequest(message: Message): Command {
  if (!isRequest(message.type)) throw decodeError(`Request type ${messageTypeName(message.type)} not supported.`);
  return fromMessage(message, 0);
}

/** The message of a response. @throws TypeError for a command that is no response. */
export function serializeResponse(command: Command): Message {
  const message = toMessage(command, 0);
  if (!isResponse(message.type)) throw new TypeError(`'${command.kind}' is not a response: use serializeRequest()`);
  return message;
}

/** The command of a response, unwrapped. @throws WireError 'decode-error'. */
export function deserializeResponse(message: Message): DecodedResponse {
  if (!isResponse(message.type)) throw decodeError(`Response type ${messageTypeName(message.type)} not supported.`);
  const wraps: Command[] = [];
  let command = fromMessage(message, 0);
  while (isCommand(command['wrapped'])) {
    wraps.push(command);
    command = command['wrapped'];
  }
  return { command, wrappedType: COMMAND_TYPES[command.kind as KnownCommand['kind']], wraps };
}

/**
 * The value that a response returns, wrapped or not.
 * @throws Error with the remote text for an EXCEPTION; WireError 'decode-error' for a response without a value.
 */
export function decodeResponseValue(message: Message): unknown {
  const { command, wrappedType } = deserializeResponse(message);
  if (command.kind === 'exception') throw new Error(String(command['message']));
  if (!('value' in command)) throw decodeError(`Response type ${messageTypeName(wrappedType)} has no value`);
  return command['value'];
}

function toMessage(command: Command, depth: number): Message {
  const given: unknown = command;
  if (typeof given !== 'object' || given === null)
    throw invalidArgument(`a command is an object with its kind and fields, got ${String(given)}`);
  const { kind } = command;
  if (!Object.hasOwn(COMMAND_TYPES, kind)) throw new TypeError(`no command is of kind '${kind}'`);
  if (depth > MAX_WRAPS) throw new TypeError(`commands are wrapped too deeply: at most ${MAX_WRAPS} times`);
  const known = kind as KnownCommand['kind'];
  const tensors: Tensor[] = [];
  const payload = contents[known].write(command, tensors, (wrapped) => toMessage(wrapped, depth + 1));
  return { type: COMMAND_TYPES[known], id: UNSENT, payload, tensors };
}

function fromMessage(message: Message, depth: number): Command {
  const kind = kinds.get(message.type);
  if (kind === undefined) {
    const what = isRequest(message.type) ? 'Request' : 'Response';
    throw decodeError(`${what} type ${messageTypeName(message.type)} not supported.`);
  }
  if (depth > MAX_WRAPS) throw decodeError(`a message is wrapped too deeply: at most ${MAX_WRAPS} times`);
  return { kind, ...contents[kind].read(message, (wrapped) => fromMessage(wrapped, depth + 1)) };
}

function isCommand(value: unknown): value is Command {
  return typeof value === 'object' && value !== null && typeof (value as { kind?: unknown }).kind === 'string';
}
