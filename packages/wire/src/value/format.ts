/** @file Field numbers of the `Value` message, shared by the writer and the reader of values. */

/** Protobuf tags (field number << 3 | wire type) of `Value.kind`. */
export const ValueTag = {
  SINGLETON: (1 << 3) | 0,
  BOOLEAN: (2 << 3) | 0,
  INTEGER: (3 << 3) | 0,
  NUMBER: (4 << 3) | 1,
  TEXT: (5 << 3) | 2,
  BYTES: (6 << 3) | 2,
  INT64: (7 << 3) | 1,
  BIG: (8 << 3) | 2,
  TYPED_ARRAY: (9 << 3) | 2,
  DATE: (10 << 3) | 1,
  LIST: (11 << 3) | 2,
  OBJECT: (12 << 3) | 2,
  TENSOR: (13 << 3) | 0,
  MAP: (14 << 3) | 2,
  SET: (15 << 3) | 2,
  ERROR: (16 << 3) | 2,
  CUSTOM: (17 << 3) | 2,
  EXTENSION: (18 << 3) | 2,
  UTF16: (19 << 3) | 2,
  NUMBERS: (20 << 3) | 2,
} as const;

/** Values of `Singleton`. */
export const Singleton = { NULL: 1, UNDEFINED: 2 } as const;

/** The first two length-delimited fields and the first varint field of the nested messages. */
export const FIELD_1 = (1 << 3) | 2;
export const FIELD_2 = (2 << 3) | 2;
export const FIELD_3 = (3 << 3) | 2;
export const FIELD_4 = (4 << 3) | 2;
export const FIELD_1_VARINT = (1 << 3) | 0;
export const FIELD_3_VARINT = (3 << 3) | 0;

type AnyTypedArray = new (buffer: ArrayBuffer) => ArrayBufferView;

/** Values of `ElementType`: what a typed array holds. The position is the number. */
export const ELEMENT_TYPES: readonly {
  readonly name: string;
  readonly bytes: number;
  readonly make: AnyTypedArray | undefined;
}[] = [
  { name: 'unspecified', bytes: 1, make: undefined },
  { name: 'Uint8Array', bytes: 1, make: Uint8Array },
  { name: 'Int8Array', bytes: 1, make: Int8Array },
  { name: 'Uint8ClampedArray', bytes: 1, make: Uint8ClampedArray },
  { name: 'Uint16Array', bytes: 2, make: Uint16Array },
  { name: 'Int16Array', bytes: 2, make: Int16Array },
  { name: 'Uint32Array', bytes: 4, make: Uint32Array },
  { name: 'Int32Array', bytes: 4, make: Int32Array },
  { name: 'Float32Array', bytes: 4, make: Float32Array },
  { name: 'Float64Array', bytes: 8, make: Float64Array },
  { name: 'BigInt64Array', bytes: 8, make: BigInt64Array },
  { name: 'BigUint64Array', bytes: 8, make: BigUint64Array },
  { name: 'DataView', bytes: 1, make: DataView },
  { name: 'ArrayBuffer', bytes: 1, make: undefined },
];

/** Number of the element type with this name, or 0. */
export function elementTypeOf(name: string): number {
  const index = ELEMENT_TYPES.findIndex((type) => type.name === name);
  return index < 0 ? 0 : index;
}

/** The error classes that are rebuilt as themselves; others arrive as `Error` with their name. */
export const ERROR_CLASSES: ReadonlyMap<string, new (message: string) => Error> = new Map<
  string,
  new (message: string) => Error
>([
  ['Error', Error],
  ['TypeError', TypeError],
  ['RangeError', RangeError],
  ['SyntaxError', SyntaxError],
  ['ReferenceError', ReferenceError],
  ['EvalError', EvalError],
  ['URIError', URIError],
]);

/** Bits of the largest number of this many decimal digits. */
export function bitsOfDigits(digits: number): number {
  return Math.ceil(digits * Math.log2(10));
}
