/** @file What one kind of command says of itself: how its fields lie in its message's payload. */
import { type Tensor } from '@backwire/tensor';
import { type Command, type KnownCommand } from './commands.ts';
import { type Message } from './message.ts';

/** Payload of one kind: `write` adds the tensors it names to `tensors`; `wrap` and `unwrap` handle a message inside. */
export interface CommandBody {
  write(command: Command, tensors: Tensor[], wrap: (wrapped: Command) => Message): Uint8Array;
  read(message: Message, unwrap: (message: Message) => Command): Readonly<Record<string, unknown>>;
}

/** The command of a kind. */
export type Of<K extends KnownCommand['kind']> = Extract<KnownCommand, { kind: K }>;
