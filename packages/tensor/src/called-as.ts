/** @file What an operation refuses, in the name of what was called: a layer, or a function that is made of others. */
import { DTypeError, ShapeError } from './errors.ts';

/** How messages begin that name an operation. */
const OPERATION = /^[\w.]+(\(\)|(?=: ))/;

/** Runs `fn`. What an operation within refuses for its shape or dtype begins with `name` instead of with the operation's own. */
export function calledAs<T>(name: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    throw inNameOf(name, error);
  }
}

/** What was thrown, which names `name` where it names an operation. */
export function inNameOf(name: string, error: unknown): unknown {
  if (error instanceof ShapeError || error instanceof DTypeError) reword(error, messageOf(name, error.message));
  return error;
}

function messageOf(name: string, message: string): string {
  const own = name.replace('()', '');
  if (message.startsWith(own) && !/\w/.test(message.charAt(own.length))) return message;
  return OPERATION.test(message) ? message.replace(OPERATION, () => name) : `${name}: ${message}`;
}

/** Engines write the message into the stack when the error is made, and that is what is printed: both become the new one. */
export function reword(error: Error, message: string): void {
  const { message: old, stack } = error;
  error.message = message;
  if (stack !== undefined) error.stack = stack.replace(old, () => message);
}
