/** @file Python's builtin exceptions: the classes that errors may have, and which of them an error of JavaScript becomes. */
import { classNameOf } from '@backwire/rpc/internal';
import { PyCallable, type PyName } from '../values/name.ts';
import { PyException } from '../values/objects.ts';

class ExceptionClass extends PyCallable {
  override call(args: readonly unknown[]): PyException {
    return new PyException(this, args);
  }
}

const NAMES = `ArithmeticError AssertionError AttributeError BaseException BlockingIOError BrokenPipeError BufferError BytesWarning
ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError
EncodingWarning Exception FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit ImportError ImportWarning
IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError
NameError NotADirectoryError NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError
RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning
SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError UnicodeError UnicodeWarning UserWarning ValueError Warning
ZeroDivisionError`;

/** By name. */
export const builtinExceptions: ReadonlyMap<string, PyCallable> = new Map(
  NAMES.split(/\s/).map((name) => [name, new ExceptionClass('builtins', name)]),
);

/** The nearest of Python's classes, by the name of a JavaScript error's class. */
const NEAREST: ReadonlyMap<string, string> = new Map([
  ['TypeError', 'TypeError'],
  ['RangeError', 'ValueError'],
  ['URIError', 'ValueError'],
  ['SyntaxError', 'SyntaxError'],
  ['ReferenceError', 'NameError'],
  ['TimeoutError', 'TimeoutError'],
]);

function builtin(name: string): PyName {
  const found = builtinExceptions.get(name);
  if (found === undefined) throw new Error(`invariant: Python has no ${name}`);
  return found;
}

/** Classes that say less of an error than its own `name`, where somebody has given it one. */
const GENERIC: ReadonlySet<string> = new Set([
  ...['Error', 'TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', 'URIError', 'EvalError'],
  ...['AggregateError', 'DOMException'],
]);

/** What an error is called: its class, or the name that it was given where the class is one of JavaScript's own. */
export function nameOfError(error: Error): string {
  const { name } = error;
  const own = classNameOf(error);
  return GENERIC.has(own) && name !== '' ? name : own;
}

/** What Python gets for an error: the class nearest to its own, else RuntimeError with the name of its class in the text. */
export function exceptionOf(error: Error): { readonly callee: PyName; readonly args: readonly unknown[] } {
  const { message } = error;
  const name = nameOfError(error);
  // A class that is derived from one of JavaScript's own has that one's name as well.
  for (const each of [name, error.name]) {
    const nearest = NEAREST.get(each) ?? (builtinExceptions.has(each) ? each : undefined);
    if (nearest !== undefined) return { callee: builtin(nearest), args: [message] };
  }
  return { callee: builtin('RuntimeError'), args: [name === 'Error' ? message : `${name}: ${message}`] };
}
