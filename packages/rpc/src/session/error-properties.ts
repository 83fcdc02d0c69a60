/** @file What programs put on errors beside the message: own enumerable properties that are values, and what a thrown object that is no error says. */
import type { Tensor } from '@backwire/tensor';
import { decodeValue } from '@backwire/wire';
import { ByteWriter, DEFAULT_WIRE_LIMITS, ValueCodec } from '@backwire/wire/internal';
import { attempt } from '../base/attempt.ts';
import { MAX_ERROR_DETAILS, MAX_ERROR_PROPERTIES, MAX_PROPERTY_VALUES, MAX_THROWN_TEXT } from '../base/limits.ts';

/** What an error brings along, by name. */
export type ErrorProperties = Readonly<Record<string, unknown>>;

const NOTHING = new Uint8Array(0);
const NONE: ErrorProperties = Object.freeze({});
/** An error may hold half a program: what is larger than this is not looked at to its end. */
const codec = new ValueCodec<undefined>([], {
  ...DEFAULT_WIRE_LIMITS,
  maxValues: MAX_PROPERTY_VALUES,
  maxStringBytes: MAX_ERROR_DETAILS,
  maxDepth: 16,
});

/** Bytes that the properties of one error and its causes may take together. */
export interface Room {
  left: number;
}

/**
 * The own enumerable properties of `thrown` that are values, but for `except`; what is no value, cannot be read, or finds no room is left
 * out. A `cause` that is no error goes along as one. Never throws.
 */
export function propertiesOf(
  thrown: object,
  room: Room,
  except: (name: string) => boolean = () => false,
  cause?: unknown,
): Uint8Array {
  const kept: Record<string, unknown> = {};
  const keep = (name: string, value: unknown): boolean => {
    const bytes = encode({ [name]: value });
    if (bytes === undefined || bytes.length > room.left) return false;
    room.left -= bytes.length;
    Object.defineProperty(kept, name, { value, enumerable: true });
    return true;
  };
  if (cause !== undefined && !keep('cause', cause)) keep('cause', describeThrown(cause));
  for (const name of namesOf(thrown)) {
    if (Object.keys(kept).length >= MAX_ERROR_PROPERTIES) break;
    if (isReserved(name) || except(name)) continue;
    const value = readOf(thrown, name);
    if (value !== undefined) keep(name, value);
  }
  return Object.keys(kept).length === 0 ? NOTHING : (encode(kept) ?? NOTHING);
}

/** What a peer sent of an error's properties, checked: no name that errors give a meaning to, but `name` and `cause`. */
export function readProperties(bytes: Uint8Array): ErrorProperties {
  if (bytes.length === 0 || bytes.length > 2 * MAX_ERROR_DETAILS) return NONE;
  const found = attempt(() => decodeValue(bytes, []));
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return NONE;
  return Object.fromEntries(Object.entries(found).filter(([name]) => name === 'cause' || !isReserved(name)));
}

/** Puts the properties on an error that was made again; `spare` names those that have a meaning on it already. */
export function addProperties(error: Error, properties: ErrorProperties, spare: (name: string) => boolean): void {
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'cause' || spare(name)) continue;
    if (name === 'name' && typeof value !== 'string') continue;
    try {
      Object.defineProperty(error, name, { value, enumerable: true, writable: true, configurable: true });
    } catch {
      // Its class does not want it.
    }
  }
}

/** What a thrown thing that is no error says of itself: its own text, or its class and what is in it. Never throws. */
export function describeThrown(thrown: unknown): string {
  try {
    if (typeof thrown !== 'object' || thrown === null) return String(thrown);
    const text: unknown = (thrown as { toString?: unknown }).toString;
    if (text !== Object.prototype.toString && typeof text === 'function' && !Array.isArray(thrown)) {
      // eslint-disable-next-line @typescript-eslint/no-base-to-string -- it has a text of its own
      return String(thrown);
    }
    const name = (thrown as { constructor?: { name?: unknown } }).constructor?.name;
    const kind = typeof name === 'string' && name !== '' && name !== 'Object' ? `${name} ` : '';
    return `${kind}${JSON.stringify(thrown, plainly)}`.slice(0, MAX_THROWN_TEXT);
  } catch {
    return 'a value that cannot be shown';
  }
}

/** What JSON has no words for. */
function plainly(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' || typeof value === 'symbol' || typeof value === 'function' ? String(value) : value;
}

/** Names that every error has, in whatever sense: a property would change what `String(error)` or `await` do. `name` may be set. */
function isReserved(name: string): boolean {
  return RESERVED.has(name) || (name !== 'name' && name in Error.prototype);
}
const RESERVED: ReadonlySet<string> = new Set(['message', 'stack', 'cause', 'errors', 'then', 'toJSON']);

function namesOf(thrown: object): readonly string[] {
  return attempt(() => Object.keys(thrown)) ?? [];
}

function readOf(thrown: object, name: string): unknown {
  try {
    return (thrown as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function encode(value: unknown): Uint8Array | undefined {
  const tensors: Tensor[] = [];
  return attempt(() => {
    const out = new ByteWriter();
    codec.write(out, value, tensors, undefined);
    return tensors.length > 0 ? undefined : out.finish();
  });
}
