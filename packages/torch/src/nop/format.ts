/** @file The part of libnop's encoding that TensorPipe uses (https://github.com/google/libnop, docs/format.md). */

/** The byte before a value. Below 0x80 and from 0xc0 on it is a small integer itself. */
export const Prefix = {
  U8: 0x80,
  U16: 0x81,
  U32: 0x82,
  U64: 0x83,
  VARIANT: 0xb8,
  STRUCTURE: 0xb9,
  ARRAY: 0xba,
  MAP: 0xbb,
  BINARY: 0xbc,
  STRING: 0xbd,
  NIL: 0xbe,
} as const;
