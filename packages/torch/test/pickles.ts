/** @file Pickles that are written by hand, an instruction at a time. */
import { NO_NAMES, readPython, type PythonContext } from '../src/pickle/python-reader.ts';

const context: PythonContext = { tensors: [], names: NO_NAMES, rref: (fork) => fork };
export const bytes = (...parts: (number | string)[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'number' ? [part] : [...Buffer.from(part, 'latin1')])));
/** A pickle of protocol 4 of these instructions. */
export const pickle = (...parts: (number | string)[]): Uint8Array => bytes(0x80, 4, ...parts, '.');
export const read = (content: Uint8Array, more: Partial<PythonContext> = {}): unknown =>
  readPython(content, { ...context, ...more });
export const global = (module: string, name: string): string => `c${module}\n${name}\n`;
