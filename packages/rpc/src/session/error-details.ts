/** @file What two standard classes of errors keep beside their message: the errors of an AggregateError, the name of a DOMException. */
import { decodeValue, encodeValue } from '@backwire/wire';
import { attempt } from '../base/attempt.ts';
import { MAX_ERROR_DETAILS, MAX_ERRORS_INSIDE } from '../base/limits.ts';

/** Not everywhere: an agent may run where there is no DOMException. */
const { DOMException: DomException } = globalThis as { DOMException?: typeof DOMException };
const NOTHING = new Uint8Array(0);

/** What the caller needs to make the error again; nothing for other classes. Never throws: then the message alone travels. */
export function detailsOf(error: Error): Uint8Array {
  try {
    if (error instanceof AggregateError) return encodeDetails(errorsOf(error).map(portable));
    if (DomException !== undefined && error instanceof DomException) return encodeDetails(error.name);
  } catch {
    // An error whose own fields throw.
  }
  return NOTHING;
}

/** The error of that class, or undefined when it is another class or none here. */
export function rebuildWithDetails(name: string, message: string, details: Uint8Array): Error | undefined {
  if (name === 'AggregateError') {
    const errors = decodeDetails(details);
    return new AggregateError(Array.isArray(errors) ? (errors as unknown[]) : [], message);
  }
  if (name !== 'DOMException' || DomException === undefined) return undefined;
  const kind = decodeDetails(details);
  return new DomException(message, typeof kind === 'string' ? kind : 'Error');
}

function errorsOf(error: AggregateError): readonly unknown[] {
  return Array.isArray(error.errors) ? error.errors.slice(0, MAX_ERRORS_INSIDE) : [];
}

/** An error by its name and message, whatever hangs on it; of other things their text. */
function portable(item: unknown): unknown {
  if (item instanceof AggregateError) return new AggregateError(errorsOf(item).map(flat), item.message);
  return flat(item);
}

function flat(item: unknown): unknown {
  if (!(item instanceof Error)) return isObject(item) ? textOf(item) : item;
  const copy = new Error(item.message);
  copy.name = item.name;
  return copy;
}

function isObject(item: unknown): boolean {
  return (typeof item === 'object' && item !== null) || typeof item === 'function';
}

function textOf(item: unknown): string {
  return String(item);
}

function encodeDetails(value: unknown): Uint8Array {
  const { bytes, tensors } = encodeValue(value);
  return tensors.length > 0 || bytes.length > MAX_ERROR_DETAILS ? NOTHING : bytes;
}

function decodeDetails(bytes: Uint8Array): unknown {
  if (bytes.length === 0 || bytes.length > MAX_ERROR_DETAILS) return undefined;
  return attempt(() => decodeValue(bytes, []));
}
