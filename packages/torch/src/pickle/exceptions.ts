/** @file Python's builtin exceptions: the classes that errors may have, and which of them an error of JavaScript becomes. */
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

/** What Python gets for an error: the class nearest to its own, else RuntimeError with the name of its class in the text. */
export function exceptionOf(error: Error): { readonly callee: PyName; readonly args: readonly unknown[] } {
  const { name, message } = error;
  const own = NEAREST.get(name) ?? (builtinExceptions.has(name) ? name : undefined);
  if (own !== undefined) return { callee: builtin(own), args: [message] };
  return { callee: builtin('RuntimeError'), args: [name === 'Error' ? message : `${name}: ${message}`] };
}
