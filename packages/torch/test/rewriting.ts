/** @file Writes what was read again, and compares pickles by what they do. */
import { writeCommand } from '../src/messages/codec.ts';
import type { Body, TorchCommand } from '../src/messages/commands.ts';
import { writePython } from '../src/pickle/python-writer.ts';
import { command, python } from './reading.ts';

/** The body as this package writes it: its pickles, and the message inside of it, too. */
export function rewritten(body: Body): Body {
  return writeCommand(deep(command(body)));
}

function deep(c: TorchCommand): TorchCommand {
  switch (c.kind) {
    case 'python-call':
    case 'python-remote-call':
    case 'python-ret':
    case 'python-rref-fetch-ret': {
      const { bytes, tensors } = writePython(python(c.pickled, c.tensors));
      return { ...c, pickled: bytes, tensors };
    }
    case 'forward-autograd-req':
    case 'forward-autograd-resp':
    case 'run-with-profiling-req':
    case 'run-with-profiling-resp':
      return { ...c, inner: rewritten(c.inner) };
    default:
      return c;
  }
}
